// Package agents runs real agents, as npm has them, below acphost and with models that a test plays: servers on the
// loopback that have a vendor's API and play a script. It knows each agent's settings for its model, and the tools that
// a script can call; the tests check what acphost does with the calls.
//
// The agents take hundreds of megabytes and are not downloaded: ACPHOST_AGENTS names the folder in which they are
// installed.
package agents

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
)

// Step is the model's next answer.
type Step struct {
	Thought string // shown before the text, where the API has that
	Text    string
	Calls   []Call
	// Hang: the answer does not end after that, until the agent cancels the request.
	Hang bool
	// Fail: the request is rejected with this HTTP status, without a text.
	Fail int
}

// Call is a call of one of the agent's tools, by the agent's name for it.
type Call struct {
	Name string
	// Namespace is the group of the tool, if the API has groups: a server of MCP.
	Namespace string
	Args      map[string]any
	// Free is the input of a tool with free text in place of Args.
	Free string
}

// Tokens that every answer reports.
const (
	inputTokens  = 1200
	cachedTokens = 200 // of the input
	outputTokens = 34
)

// Model plays a script to all clients of its API. It is safe for concurrent use.
type Model struct {
	// URL is its base, without a slash at the end.
	URL string

	mu      sync.Mutex
	steps   []Step
	asked   []json.RawMessage
	strange []string
	calls   int
	hanging chan struct{}
}

// serve starts a model. api answers requests; what it does not know it reports by Strangely. It stops when the test
// ends.
func serve(t testing.TB, steps []Step, api func(*Model, http.ResponseWriter, *http.Request)) *Model {
	t.Helper()
	m := &Model{steps: steps, hanging: make(chan struct{}, 16)}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api(m, w, r)
	})}}
	web.Start()
	t.Cleanup(func() {
		web.CloseClientConnections() // one may hang, as its step requires
		web.Close()
	})
	m.URL = web.URL
	return m
}

// Play adds steps to the script.
func (m *Model) Play(steps ...Step) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = append(m.steps, steps...)
}

// Drop removes the rest of the script.
func (m *Model) Drop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.steps = nil
}

// Left is how many steps were not played.
func (m *Model) Left() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.steps)
}

// Requests are the bodies of the conversation's requests so far: what agents ask on the side is not among them.
func (m *Model) Requests() []json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.asked)
}

// Newest is the newest of Requests; nil if none exists.
func (m *Model) Newest() json.RawMessage {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.asked) == 0 {
		return nil
	}
	return m.asked[len(m.asked)-1]
}

// Heard reports whether the newest request of the conversation holds words, spelled as JSON spells them.
func (m *Model) Heard(words string) bool {
	return strings.Contains(string(m.Newest()), words)
}

// Strange are requests that the model does not know, for a test to see why nothing happens.
func (m *Model) Strange() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.strange)
}

// Hanging receives a value each time that an answer hangs.
func (m *Model) Hanging() <-chan struct{} { return m.hanging }

// next returns the step for a request of the conversation. After the script's end the model answers "Done.".
func (m *Model) next(body []byte) Step {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.asked = append(m.asked, json.RawMessage(body))
	if len(m.steps) == 0 {
		return Step{Text: "Done."}
	}
	step := m.steps[0]
	m.steps = m.steps[1:]
	return step
}

// number is a number that no call had before.
func (m *Model) number() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.calls++
	return m.calls
}

// Strangely answers what is not known.
func (m *Model) Strangely(w http.ResponseWriter, r *http.Request) {
	m.mu.Lock()
	m.strange = append(m.strange, r.Method+" "+r.URL.Path)
	m.mu.Unlock()
	http.Error(w, `{"type":"error","error":{"type":"not_found_error","code":"not_found","message":"the script does not know this"}}`, http.StatusNotFound)
}

// hang waits until the agent cancels a request.
func (m *Model) hang(r *http.Request) {
	select {
	case m.hanging <- struct{}{}:
	default:
	}
	<-r.Context().Done()
}

// events writes server-sent events.
type events struct {
	w http.ResponseWriter
}

// stream begins an answer of events.
func stream(w http.ResponseWriter) events {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-cache")
	w.WriteHeader(http.StatusOK)
	return events{w}
}

// send sends an event of the kind that it holds as "type". An error means that the agent has left, and is its affair.
func (e events) send(event map[string]any) {
	line, err := json.Marshal(event)
	if err != nil {
		line, _ = json.Marshal(map[string]any{"type": "error", "error": err.Error()})
	}
	kind, _ := event["type"].(string)
	_, _ = e.w.Write([]byte("event: " + kind + "\ndata: " + string(line) + "\n\n"))
	_ = http.NewResponseController(e.w).Flush()
}
