// Package gemini is Gemini's model API with a script in place of a model, so that Gemini CLI can be driven offline. It
// serves what the CLI calls: generateContent, streamGenerateContent (server-sent events) and countTokens.
package gemini

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// Step is the model's next answer: text, and tool calls.
type Step struct {
	Text  string
	Calls []Call
}

// Call is a call of one of the CLI's tools: "write_file", "replace", "read_file", "run_shell_command".
type Call struct {
	Name string         `json:"name"`
	Args map[string]any `json:"args"`
}

// Server plays a script. It is safe for concurrent use.
type Server struct {
	// URL is for GOOGLE_GEMINI_BASE_URL.
	URL string

	mu      sync.Mutex
	steps   []Step
	asked   []Request
	strange []string
}

// Request is a request with tools, which distinguishes the CLI's conversation from its other questions.
type Request struct {
	Model    string
	Contents json.RawMessage // the conversation so far, tool results included
}

// Serve starts a server on the loopback that plays the steps in order, one for each request of the conversation. After
// the last it answers "Done.". It stops when the test ends.
func Serve(t testing.TB, steps ...Step) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return ServeOn(t, listener, steps...)
}

// ServeOn is Serve on a listener, which it closes.
func ServeOn(t testing.TB, listener net.Listener, steps ...Step) *Server {
	t.Helper()
	s := &Server{steps: steps}
	web := &httptest.Server{Listener: listener, Config: &http.Server{Handler: s}}
	web.Start()
	t.Cleanup(web.Close)
	s.URL = web.URL
	return s
}

// Requests are the conversation's requests so far.
func (s *Server) Requests() []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Request(nil), s.asked...)
}

// Strange are requests that the server does not know, for a test to see why nothing happens.
func (s *Server) Strange() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.strange...)
}

// ServeHTTP implements http.Handler: POST /v1beta/models/MODEL:METHOD.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { Answer(s, w, r) }

// Script answers the CLI's requests.
type Script interface {
	// Next is the step for a request of the conversation, whose body is given.
	Next(model string, body []byte) Step
	// Strangely is called for a request that Answer does not know.
	Strangely(w http.ResponseWriter, r *http.Request)
}

// Answer serves POST /v1beta/models/MODEL:METHOD.
func Answer(s Script, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the caller has gone
	}
	path := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	model, method, _ := strings.Cut(path, ":")
	switch method {
	case "streamGenerateContent":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = fmt.Fprintf(w, "data: %s\n\n", answer(s, model, body))
	case "generateContent":
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(answer(s, model, body))
	case "countTokens":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"totalTokens":10}`)
	default:
		s.Strangely(w, r)
	}
}

// answer is the model's answer to a request. A request without tools is a question of the CLI itself, such as which
// model to use or whether the conversation repeats.
func answer(s Script, model string, body []byte) []byte {
	var asked struct {
		Tools []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &asked) // what is not understood is answered with words
	if len(asked.Tools) == 0 {
		return response(Step{Text: "{}"})
	}
	return response(s.Next(model, body))
}

// Next implements Script.
func (s *Server) Next(model string, body []byte) Step {
	var asked struct {
		Contents json.RawMessage `json:"contents"`
	}
	_ = json.Unmarshal(body, &asked) // it has been read once
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, Request{Model: model, Contents: asked.Contents})
	step := Step{Text: "Done."}
	if len(s.steps) > 0 {
		step, s.steps = s.steps[0], s.steps[1:]
	}
	return step
}

// Strangely implements Script.
func (s *Server) Strangely(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.strange = append(s.strange, r.Method+" "+r.URL.Path)
	s.mu.Unlock()
	http.Error(w, `{"error":{"code":404,"message":"the script does not know this","status":"NOT_FOUND"}}`, http.StatusNotFound)
}

// response is a GenerateContentResponse on one line. json.Marshal escapes U+2028 and U+2029, which the CLI's parser of
// events takes for line ends.
func response(step Step) []byte {
	var parts []map[string]any
	if step.Text != "" {
		parts = append(parts, map[string]any{"text": step.Text})
	}
	for _, c := range step.Calls {
		parts = append(parts, map[string]any{"functionCall": c})
	}
	line, err := json.Marshal(map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": parts}}},
		"usageMetadata": map[string]any{"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20},
	})
	if err != nil {
		line, _ = json.Marshal(map[string]any{"error": err.Error()})
	}
	return line
}
