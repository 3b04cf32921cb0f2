package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Anthropic starts a model that speaks Anthropic's Messages API, as Claude Code calls it. Requests without tools are the
// agent's own questions, such as what to call a session, and no part of the script.
func Anthropic(t testing.TB, steps ...Step) *Model {
	t.Helper()
	return serve(t, steps, messages)
}

// messages serves POST /v1/messages and /v1/messages/count_tokens.
func messages(m *Model, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has gone
	}
	switch {
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages/count_tokens":
		reply(w, map[string]any{"input_tokens": inputTokens})
	case r.Method == http.MethodPost && r.URL.Path == "/v1/messages":
		message(m, w, r, body)
	case r.Method == http.MethodHead: // whether there is a server at all
	default:
		m.Strangely(w, r)
	}
}

func message(m *Model, w http.ResponseWriter, r *http.Request, body []byte) {
	var asked struct {
		Model  string            `json:"model"`
		Stream bool              `json:"stream"`
		Tools  []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &asked) // what is not understood is answered with words
	step := Step{Text: "{}"}
	if len(asked.Tools) > 0 {
		step = m.next(body)
	}
	if step.Fail != 0 {
		w.Header().Set("X-Should-Retry", "false")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(step.Fail)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"invalid_request_error","message":"the script refuses"}}`)
		return
	}
	start, blocks, reason := answer(m, asked.Model, step)
	if !asked.Stream {
		start["content"], start["stop_reason"] = blocks, reason
		reply(w, start)
		return
	}
	out := stream(w)
	start["content"] = []any{}
	out.send(map[string]any{"type": "message_start", "message": start})
	for i, b := range blocks {
		block(out, i, b)
	}
	if step.Hang {
		m.hang(r)
		return
	}
	out.send(map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": reason, "stop_sequence": nil}, "usage": map[string]any{"output_tokens": outputTokens}})
	out.send(map[string]any{"type": "message_stop"})
}

// answer is a message without its content, the content's blocks, and why it ends.
func answer(m *Model, model string, step Step) (start map[string]any, blocks []map[string]any, reason string) {
	if step.Thought != "" {
		blocks = append(blocks, map[string]any{"type": "thinking", "thinking": step.Thought, "signature": "c2lnbmF0dXJl"})
	}
	if step.Text != "" {
		blocks = append(blocks, map[string]any{"type": "text", "text": step.Text})
	}
	reason = "end_turn"
	for _, c := range step.Calls {
		reason = "tool_use"
		blocks = append(blocks, map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%024d", m.number()), "name": c.Name, "input": c.Args})
	}
	start = map[string]any{
		"id": fmt.Sprintf("msg_%024d", m.number()), "type": "message", "role": "assistant", "model": model, "stop_reason": nil, "stop_sequence": nil,
		"usage": map[string]any{"input_tokens": inputTokens - cachedTokens, "cache_creation_input_tokens": 0, "cache_read_input_tokens": cachedTokens, "output_tokens": 1},
	}
	return start, blocks, reason
}

// block sends a block as its begin, its pieces and its end.
func block(out events, i int, b map[string]any) {
	begin, pieces := map[string]any{"type": b["type"]}, []map[string]any(nil)
	switch b["type"] {
	case "thinking":
		begin["thinking"], begin["signature"] = "", ""
		pieces = append(pieces, map[string]any{"type": "thinking_delta", "thinking": b["thinking"]}, map[string]any{"type": "signature_delta", "signature": b["signature"]})
	case "text":
		begin["text"] = ""
		text, _ := b["text"].(string)
		for _, piece := range strings.SplitAfter(text, " ") {
			pieces = append(pieces, map[string]any{"type": "text_delta", "text": piece})
		}
	case "tool_use":
		begin["id"], begin["name"], begin["input"] = b["id"], b["name"], map[string]any{}
		input, _ := json.Marshal(b["input"]) // it was made of JSON's own types
		for _, piece := range []string{string(input[:len(input)/2]), string(input[len(input)/2:])} {
			pieces = append(pieces, map[string]any{"type": "input_json_delta", "partial_json": piece})
		}
	}
	out.send(map[string]any{"type": "content_block_start", "index": i, "content_block": begin})
	for _, piece := range pieces {
		out.send(map[string]any{"type": "content_block_delta", "index": i, "delta": piece})
	}
	out.send(map[string]any{"type": "content_block_stop", "index": i})
}

// reply answers with one JSON value.
func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // an error means that the agent has left
}
