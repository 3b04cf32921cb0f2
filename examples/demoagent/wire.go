package main

import (
	"bytes"
	"encoding/json"
	"io"
	"sync"
)

// wire is the agent's input and output. It sees each line that passes, for the two things that the library does not do:
// to tell the id of a request, and to send a notification right behind a certain answer.
type wire struct {
	in  io.Reader
	out io.Writer

	mu     sync.Mutex
	line   []byte                     // of the input, as far as it has come
	ids    map[string]json.RawMessage // method to the id of its latest request, for the methods that are watched
	behind map[string][]byte          // session id to the line that follows the answer that opens it
}

// longestWatched bounds the lines that are looked into: no request that is watched for is longer.
const longestWatched = 64 << 10

func newWire(watched ...string) *wire {
	w := &wire{ids: map[string]json.RawMessage{}, behind: map[string][]byte{}}
	for _, method := range watched {
		w.ids[method] = nil
	}
	return w
}

// id is the id of the latest request of a method that is watched.
func (w *wire) id(method string) json.RawMessage {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ids[method]
}

// follow has a line sent right behind the answer that opens a session.
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
		if len(w.line) <= longestWatched {
			w.line = append(w.line, part...)
		}
		if bytes.HasSuffix(part, []byte("\n")) {
			w.look(w.line)
			w.line = w.line[:0]
		}
	}
	return n, err
}

// look is called with mu held.
func (w *wire) look(line []byte) {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if len(line) > longestWatched || json.Unmarshal(line, &m) != nil {
		return
	}
	if _, watched := w.ids[m.Method]; watched {
		w.ids[m.Method] = m.ID
	}
}

// Write implements io.Writer. The library writes one whole line at a time, under a lock of its own.
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
