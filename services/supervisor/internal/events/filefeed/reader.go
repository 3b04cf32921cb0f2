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
	wake    chan struct{} // buffer of one
	answers chan []byte   // answers to its requests
	begun   chan struct{} // closed when its first line, a snapshot, is available
	gone    chan struct{} // closed when the connection has ended
	end     func()        // ends it

	// Guarded by Server.mu.
	filter  filter
	behind  bool // it needs snapshots, and its queue is void
	trusted bool // it has sent the token
	lost    bool // it was evicted: it gets the reason, and ends
	queued  [][]byte
	bytes   int
}

// filter selects the sessions for a reader. Empty: all.
type filter struct{ session, mode string }

func (f filter) passes(key sessionKey) bool {
	return (f.session == "" || f.session == key.session) && (f.mode == "" || f.mode == singleAgent)
}

// signal wakes the writer.
func (r *reader) signal() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// queue queues a line for the writer. If the queue is full, the reader gets a snapshot later. Server.mu is held.
func (r *reader) queue(line []byte) {
	if len(r.queued) > 0 && r.bytes+len(line) > maxQueued {
		r.resync()
		return
	}
	r.queued = append(r.queued, line)
	r.bytes += len(line)
	r.signal()
}

// resync sends everything to the reader again. Server.mu is held.
func (r *reader) resync() {
	r.behind, r.queued, r.bytes = true, nil, 0
	r.signal()
}

// next returns the lines to write; nil if there are none now. last: the connection ends after them.
func (r *reader) next() (lines net.Buffers, last bool) {
	s := r.server
	s.mu.Lock()
	if r.lost {
		s.mu.Unlock()
		return net.Buffers{encode(failed(500, "more than %d readers have connected, and this one was the oldest that had not sent the token: connect again", maxReaders))}, true
	}
	// For a reader that is behind: snapshots that it has requested since, older than the next ones.
	lines = net.Buffers(r.queued)
	r.queued, r.bytes = nil, 0
	if !r.behind || !s.received {
		s.mu.Unlock()
		return lines, false
	}
	all := s.snapshots(r.filter)
	r.behind = false
	s.mu.Unlock()
	for _, line := range all {
		lines = append(lines, encode(line))
	}
	return lines, false
}

// write writes queued lines and answers until the connection ends.
func (r *reader) write() {
	defer r.server.leave(r)
	defer r.end()
	for first := true; ; {
		var lines net.Buffers
		last := false
		select {
		case <-r.wake:
			lines, last = r.next()
		case line := <-r.answers:
			lines = net.Buffers{line}
		case <-r.gone:
			return
		}
		if first && len(lines) > 0 {
			first = false
			close(r.begun)
		}
		if _, err := lines.WriteTo(r.conn); err != nil || last {
			return
		}
	}
}

// read processes the lines of a reader until the connection ends, each after the answer to the previous one.
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
		var answer any
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			answer = failed(400, "a line is longer than %d bytes, and was dropped", maxLine)
			err = skipLine(in)
		default:
			if line = bytes.TrimSpace(line); len(line) > 0 {
				answer = r.handle(line)
			}
		}
		if answer != nil && !r.answer(encode(answer)) {
			return
		}
		if err != nil {
			r.answer(nil) // returns once the previous answer was written
			return
		}
	}
}

// skipLine reads to the end of a line of any length.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}

// answer writes a line. It returns false if the connection has ended.
func (r *reader) answer(line []byte) bool {
	select {
	case r.answers <- line:
		return true
	case <-r.gone:
		return false
	}
}

// request is a line from a reader. Its members are decoded one by one, so that the answer to an invalid rpc has its id.
type request struct {
	Type        jsontext.Value `json:"type"`
	SessionID   jsontext.Value `json:"session_id"`
	SessionMode jsontext.Value `json:"session_mode"`
	ID          jsontext.Value `json:"id"`
	Method      jsontext.Value `json:"method"`
	Token       jsontext.Value `json:"token"`
	Params      jsontext.Value `json:"params"`
}

// text decodes a member with a text; "" if it is absent or null.
func text(name string, member jsontext.Value) (string, *rpcError) {
	if len(member) == 0 || member.Kind() == 'n' {
		return "", nil
	}
	var s string
	if member.Kind() != '"' || json.Unmarshal(member, &s) != nil {
		return "", wrong(400, "%q is no text", name)
	}
	return s, nil
}

// handle processes a line, and returns the answer; nil: the answer is queued.
func (r *reader) handle(line []byte) any {
	var q request
	if err := json.Unmarshal(line, &q); err != nil {
		return failed(400, "a line is no JSON object, or has a name twice")
	}
	kind, err := text("type", q.Type)
	if err != nil {
		return &errorLine{"rpc_error", null, err}
	}
	if kind == "rpc" {
		if k := q.ID.Kind(); k != '"' && k != '0' {
			return failed(400, `an rpc has an "id" that is a string or a number`)
		}
		result, err := r.rpc(q)
		if err != nil {
			return &errorLine{"rpc_error", q.ID, err}
		}
		return &resultLine{"rpc_result", q.ID, result}
	}
	session, err := text("session_id", q.SessionID)
	if err != nil {
		return &errorLine{"rpc_error", null, err}
	}
	switch kind {
	case "request_snapshot":
		return r.requestSnapshot(session)
	case "set_stream_filter":
		mode, err := text("session_mode", q.SessionMode)
		if err != nil {
			return &errorLine{"rpc_error", null, err}
		}
		return r.setFilter(filter{session, mode})
	}
	return failed(400, `lines of the type %q are not known: expected "request_snapshot", "set_stream_filter" or "rpc"`, kind)
}

// rpc processes an rpc. A reader with the token is not evicted.
func (r *reader) rpc(q request) (any, *rpcError) {
	method, err := text("method", q.Method)
	if err != nil {
		return nil, err
	}
	token, err := text("token", q.Token)
	if err != nil {
		return nil, err
	}
	s := r.server
	trusted := s.isToken(token)
	if trusted {
		s.mu.Lock()
		r.trusted = true
		s.mu.Unlock()
	}
	return s.call(method, trusted, q.Params)
}

// requestSnapshot sends a session again, or all that pass the filter.
func (r *reader) requestSnapshot(session string) any {
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == "" {
		if r.behind { // it gets all sessions anyway
			return nil
		}
		for _, line := range s.snapshots(r.filter) {
			r.queue(encode(line))
		}
		return nil
	}
	for _, key := range s.inOrder() {
		if key.session == session {
			r.queue(encode(s.sessions[key].snapshot()))
			return nil
		}
	}
	return failed(404, "session %q is not known: list_sessions has those that are", session)
}

// setFilter sets the sessions for the reader, and sends their snapshots.
func (r *reader) setFilter(f filter) any {
	if f.mode != "" && f.mode != singleAgent && f.mode != "orchestrator" {
		return failed(400, `session_mode %q is not known: expected "single_agent" or "orchestrator"`, f.mode)
	}
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.filter = f
	r.resync()
	return nil
}
