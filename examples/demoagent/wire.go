package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"

	"github.com/coder/acp-go-sdk"
)

// wire is the agent's input and output. It inspects each line for functions that the library does not have: to read the
// id of a request, to detect a prompt before it is played, and to send a notification directly after a certain
// response.
type wire struct {
	in  io.Reader
	out io.Writer

	mu      sync.Mutex
	line    []byte                // of the input, as far as it has come and is looked into
	skip    bool                  // the rest of the line is of no interest
	login   json.RawMessage       // the id of the latest authenticate
	prompts map[acp.SessionId]int // how many have come
	behind  map[string][]byte     // session id to the line that follows the answer that opens it
}

// headBytes is the number of bytes at the beginning of a line in which its method is searched for.
const headBytes = 256

func newWire() *wire {
	return &wire{prompts: map[acp.SessionId]int{}, behind: map[string][]byte{}}
}

// loginID is the id of the latest request to log in.
func (w *wire) loginID() json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.login
}

// prompted is how many prompts have come for a session, those that are not played yet included.
func (w *wire) prompted(session acp.SessionId) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.prompts[session]
}

// follow sends a line directly after the answer that opens a session.
func (w *wire) follow(session string, line []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.behind[session] = line
}

// Read implements io.Reader.
func (w *wire) Read(b []byte) (int, error) {
	n, err := w.in.Read(b)
	w.mu.Lock()
	defer w.mu.Unlock()
	for part := range bytes.Lines(b[:n]) {
		if !w.skip {
			w.line = append(w.line, part...)
			w.skip = len(w.line) >= headBytes && !watched(w.line[:headBytes])
		}
		if bytes.HasSuffix(part, []byte("\n")) {
			if !w.skip && watched(w.line[:min(headBytes, len(w.line))]) {
				w.look(w.line)
			}
			w.line, w.skip = w.line[:0], false
		}
	}
	return n, err
}

// watched reports whether a line that begins so is looked into.
func watched(head []byte) bool {
	return bytes.Contains(head, []byte(`"`+acp.AgentMethodSessionPrompt+`"`)) ||
		bytes.Contains(head, []byte(`"`+acp.AgentMethodAuthenticate+`"`))
}

// look is called with mu held.
func (w *wire) look(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
		Params struct {
			sessionParams
			Prompt []json.RawMessage `json:"prompt"` // another value is refused, and no turn begins
		} `json:"params"`
	}
	if json.Unmarshal(line, &m) != nil {
		return
	}
	switch m.Method {
	case acp.AgentMethodAuthenticate:
		w.login = m.ID
	case acp.AgentMethodSessionPrompt:
		w.prompts[m.Params.SessionID]++
	}
}

// Write implements io.Writer. The library writes one whole line at a time, under its own lock.
func (w *wire) Write(b []byte) (int, error) {
	n, err := w.out.Write(b)
	if err != nil {
		return n, err
	}
	if next := w.next(b); next != nil {
		_, err = w.out.Write(next)
	}
	return n, err
}

func (w *wire) next(line []byte) []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.behind) == 0 {
		return nil
	}
	var m struct {
		Result struct{ SessionID string }
	}
	if json.Unmarshal(line, &m) != nil {
		return nil
	}
	next := w.behind[m.Result.SessionID]
	delete(w.behind, m.Result.SessionID)
	return next
}
