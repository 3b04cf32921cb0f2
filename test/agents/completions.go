package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Completions starts a model that speaks OpenAI's Chat Completions API, as OpenCode and Qwen Code call it. Its base is
// URL and "/v1". Requests without tools, or that want no stream, are the agent's own questions, such as what to call a
// session, and no part of the script.
func Completions(t testing.TB, steps ...Step) *Model {
	t.Helper()
	return serve(t, steps, completions)
}

// completions serves POST /v1/chat/completions.
func completions(m *Model, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has gone
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/chat/completions" {
		m.Strangely(w, r)
		return
	}
	var asked struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &asked) // what is not understood is answered with words
	step := Step{Text: "{}"}
	if len(asked.Tools) > 0 && asked.Stream {
		step = m.next(body)
	}
	if step.Fail != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(step.Fail)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","code":"script","message":"the script refuses"}}`)
		return
	}
	c := completion{Model: asked.Model, ID: fmt.Sprintf("chatcmpl-%d", m.number()), Created: 1}
	calls, reason := c.calls(m, step)
	if !asked.Stream {
		c.Object, c.Usage = "chat.completion", tokens()
		c.Choices = []choice{{Message: &delta{Role: "assistant", Content: step.Text, Calls: calls}, Finish: &reason}}
		reply(w, c)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.WriteHeader(http.StatusOK)
	c.Object = "chat.completion.chunk"
	send := func(c completion) {
		line, err := json.Marshal(c)
		if err != nil {
			line = []byte(`{"error":{"message":"the script cannot be sent"}}`)
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", line) // an error means that the agent has left, and is its affair
		_ = http.NewResponseController(w).Flush()
	}
	send(c.piece(delta{Role: "assistant", Thought: step.Thought}, nil))
	for _, words := range strings.SplitAfter(step.Text, " ") {
		if words != "" {
			send(c.piece(delta{Content: words}, nil))
		}
	}
	for _, call := range calls {
		send(c.piece(delta{Calls: []toolCall{call}}, nil))
	}
	if step.Hang {
		m.hang(r)
		return
	}
	send(c.piece(delta{}, &reason))
	c.Usage, c.Choices = tokens(), []choice{}
	send(c)
	_, _ = io.WriteString(w, "data: [DONE]\n\n")
}

// completion is a chat.completion, or a chat.completion.chunk of a stream.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int      `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage,omitempty"`
}

type choice struct {
	Index   int     `json:"index"`
	Message *delta  `json:"message,omitempty"`
	Delta   *delta  `json:"delta,omitempty"`
	Finish  *string `json:"finish_reason"`
}

type delta struct {
	Role    string     `json:"role,omitempty"`
	Content string     `json:"content,omitempty"`
	Thought string     `json:"reasoning_content,omitempty"` // as DeepSeek and Qwen have it, which both agents read
	Calls   []toolCall `json:"tool_calls,omitempty"`
}

type toolCall struct {
	Index    int      `json:"index"`
	ID       string   `json:"id"`
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"` // JSON in a text
}

type usage struct {
	Prompt  int `json:"prompt_tokens"`
	Output  int `json:"completion_tokens"`
	Total   int `json:"total_tokens"`
	Details struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

// tokens is the usage that every answer reports.
func tokens() *usage {
	u := &usage{Prompt: inputTokens, Output: outputTokens, Total: inputTokens + outputTokens}
	u.Details.Cached = cachedTokens
	return u
}

// piece is a chunk of the stream.
func (c completion) piece(d delta, finish *string) completion {
	c.Choices = []choice{{Delta: &d, Finish: finish}}
	return c
}

// calls are a step's calls, each under an id that no other has, and why the model stops.
func (c completion) calls(m *Model, step Step) (calls []toolCall, reason string) {
	for i, call := range step.Calls {
		args, err := json.Marshal(call.Args)
		if err != nil {
			args = []byte("{}")
		}
		calls = append(calls, toolCall{Index: i, ID: fmt.Sprintf("call_%d", m.number()), Type: "function", Function: function{Name: call.Name, Arguments: string(args)}})
	}
	if len(calls) > 0 {
		return calls, "tool_calls"
	}
	return nil, "stop"
}
