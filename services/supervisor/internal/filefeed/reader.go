package filefeed

import (
	"bufio"
	"bytes"
	"errors"
	"net"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// reader is a connection.
type reader struct {
	server  *Server
	conn    net.Conn
	wake    chan struct{} // has room for one
	answers chan []byte   // to what it has asked
	begun   chan struct{} // closed when its first line, a snapshot, is there
	gone    chan struct{} // closed when the connection has ended
	end     func()        // ends it

	// Guarded by Server.mu.
	filter filter
	behind bool // it needs snapshots, and what is queued is void
	queued [][]byte
	bytes  int
}

// filter says which sessions a reader wants. Empty: all.
type filter struct{ session, mode string }

func (f filter) passes(key sessionKey) bool {
	return (f.session == "" || f.session == key.session) && (f.mode == "" || f.mode == singleAgent)
}

// stir has the writer look.
func (r *reader) stir() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// queue hands a line to the writer. If too much waits, the reader gets a snapshot later. Server.mu is held.
func (r *reader) queue(line []byte) {
	if len(r.queued) > 0 && r.bytes+len(line) > maxQueued {
		r.resync()
		return
	}
	r.queued = append(r.queued, line)
	r.bytes += len(line)
	r.stir()
}

// resync has the reader told everything anew. Server.mu is held.
func (r *reader) resync() {
	r.behind, r.queued, r.bytes = true, nil, 0
	r.stir()
}

// next returns the lines to write; nil: there are none now.
func (r *reader) next() net.Buffers {
	s := r.server
	s.mu.Lock()
	lines := net.Buffers(r.queued) // of a reader that is behind: snapshots that it has asked for since, older than those to come
	r.queued, r.bytes = nil, 0
	if !r.behind || !s.told {
		s.mu.Unlock()
		return lines
	}
	all := s.snapshots(r.filter)
	r.behind = false
	s.mu.Unlock()
	for _, line := range all {
		lines = append(lines, encode(line))
	}
	return lines
}

// write writes what is queued, and answers, until the connection ends.
func (r *reader) write() {
	defer r.server.leave(r)
	defer r.end()
	for first := true; ; {
		var lines net.Buffers
		select {
		case <-r.wake:
			lines = r.next()
		case line := <-r.answers:
			lines = net.Buffers{line}
		case <-r.gone:
			return
		}
		if first && len(lines) > 0 {
			first = false
			close(r.begun)
		}
		if _, err := lines.WriteTo(r.conn); err != nil {
			return
		}
	}
}

// read takes the lines of a reader until the connection ends, each once the one before it is answered.
func (r *reader) read() {
	defer r.end()
	select {
	case <-r.begun:
	case <-r.gone:
		return
	}
	in := bufio.NewReaderSize(r.conn, maxLine)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			r.answer(encode(failed(nil, 400, "a line is longer than %d bytes: the connection ends", maxLine)))
		} else if line = bytes.TrimSpace(line); len(line) > 0 {
			if answer := r.handle(line); answer != nil && !r.answer(encode(answer)) {
				return
			}
		}
		if err != nil {
			r.answer(nil) // taken once the answer before it is written
			return
		}
	}
}

// answer has a line written. It reports whether the connection goes on.
func (r *reader) answer(line []byte) bool {
	select {
	case r.answers <- line:
		return true
	case <-r.gone:
		return false
	}
}

// request is a line of a reader's.
type request struct {
	Type        string         `json:"type"`
	SessionID   *string        `json:"session_id"`
	SessionMode *string        `json:"session_mode"`
	ID          jsontext.Value `json:"id"`
	Method      string         `json:"method"`
	Token       string         `json:"token"`
	Params      jsontext.Value `json:"params"`
}

// handle does what a line asks for, and returns the answer; nil: what it asks for is queued.
func (r *reader) handle(line []byte) any {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return failed(nil, 400, "a line is no JSON object with known types of fields: %v", err)
	}
	switch q.Type {
	case "request_snapshot":
		return r.requestSnapshot(q)
	case "set_stream_filter":
		return r.setFilter(q)
	case "rpc":
		if k := q.ID.Kind(); k != '"' && k != '0' {
			return failed(nil, 400, `an rpc has an "id" that is a string or a number`)
		}
		result, err := r.server.call(q)
		if err != nil {
			return &errorLine{"rpc_error", q.ID, err}
		}
		return &resultLine{"rpc_result", q.ID, result}
	}
	return failed(nil, 400, `lines of the type %q are not known: expected "request_snapshot", "set_stream_filter" or "rpc"`, q.Type)
}

// requestSnapshot tells a session anew, or all that pass the filter.
func (r *reader) requestSnapshot(q request) any {
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if q.SessionID == nil {
		if r.behind { // it is told all anyway
			return nil
		}
		for _, line := range s.snapshots(r.filter) {
			r.queue(encode(line))
		}
		return nil
	}
	for _, key := range s.inOrder() {
		if key.session == *q.SessionID {
			r.queue(encode(s.sessions[key].snapshot()))
			return nil
		}
	}
	return failed(nil, 404, "session %q is not known: list_sessions has those that are", *q.SessionID)
}

// setFilter says which sessions the reader is told from now on, beginning with their snapshots.
func (r *reader) setFilter(q request) any {
	var f filter
	if q.SessionID != nil {
		f.session = *q.SessionID
	}
	if q.SessionMode != nil {
		f.mode = *q.SessionMode
	}
	if f.mode != "" && f.mode != singleAgent && f.mode != "orchestrator" {
		return failed(nil, 400, `session_mode %q is not known: expected "single_agent" or "orchestrator"`, f.mode)
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.filter = f
	r.resync()
	return nil
}
