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
	filter  filter
	behind  bool // it needs snapshots, and what is queued is void
	trusted bool // it has said the token
	lost    bool // its place was given to another: it is told, and ends
	queued  [][]byte
	bytes   int
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

// next returns the lines to write; nil: there are none now. last: the connection ends behind them.
func (r *reader) next() (lines net.Buffers, last bool) {
	s := r.server
	s.mu.Lock()
	if r.lost {
		s.mu.Unlock()
		return net.Buffers{encode(failed(500, "more than %d readers have connected, and this one was the oldest that had not said the token: connect again", maxReaders))}, true
	}
	lines = net.Buffers(r.queued) // of a reader that is behind: snapshots that it has asked for since, older than those to come
	r.queued, r.bytes = nil, 0
	if !r.behind || !s.told {
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

// write writes what is queued, and answers, until the connection ends.
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
			r.answer(nil) // taken once the answer before it is written
			return
		}
	}
}

// skipLine reads to the end of a line, however long it is.
func skipLine(in *bufio.Reader) error {
	for {
		if _, err := in.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
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

// request is a line of a reader's. Its members are read one by one, so that an rpc is answered under its id whatever else is
// wrong with it.
type request struct {
	Type        jsontext.Value `json:"type"`
	SessionID   jsontext.Value `json:"session_id"`
	SessionMode jsontext.Value `json:"session_mode"`
	ID          jsontext.Value `json:"id"`
	Method      jsontext.Value `json:"method"`
	Token       jsontext.Value `json:"token"`
	Params      jsontext.Value `json:"params"`
}

// text reads a member that is a text; absent, or null, it is "".
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

// handle does what a line asks for, and returns the answer; nil: what it asks for is queued.
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

// rpc does what an rpc asks for. A reader that says the token keeps its place when others need room.
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

// requestSnapshot tells a session anew, or all that pass the filter.
func (r *reader) requestSnapshot(session string) any {
	s := r.server
	s.mu.Lock()
	defer s.mu.Unlock()
	if session == "" {
		if r.behind { // it is told all anyway
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

// setFilter says which sessions the reader is told from now on, beginning with their snapshots.
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
