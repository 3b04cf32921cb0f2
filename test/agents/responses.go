package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"
)

// Responses starts a model that speaks OpenAI's Responses API, as Codex calls it. Requests without tools are no part of
// the script.
func Responses(t testing.TB, steps ...Step) *Model {
	t.Helper()
	return serve(t, steps, responses)
}

// responses serves POST /responses below any base.
func responses(m *Model, w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the agent has gone
	}
	if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/responses") {
		m.Strangely(w, r)
		return
	}
	var asked struct {
		Model string            `json:"model"`
		Tools []json.RawMessage `json:"tools"`
	}
	_ = json.Unmarshal(body, &asked) // what is not understood is answered with words
	step := Step{Text: "{}"}
	if len(asked.Tools) > 0 {
		step = m.next(body)
	}
	if step.Fail != 0 {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(step.Fail)
		_, _ = io.WriteString(w, `{"error":{"type":"invalid_request_error","code":"script","message":"the script refuses"}}`)
		return
	}
	id := fmt.Sprintf("resp_%d", m.number())
	out := stream(w)
	out.send(map[string]any{"type": "response.created", "response": map[string]any{"id": id, "object": "response", "model": asked.Model, "status": "in_progress", "output": []any{}}})
	items := items(m, step)
	for i, item := range items {
		sendItem(out, i, item)
	}
	if step.Hang {
		m.hang(r)
		return
	}
	out.send(map[string]any{"type": "response.completed", "response": map[string]any{
		"id": id, "object": "response", "model": asked.Model, "status": "completed", "output": items,
		"usage": map[string]any{
			"input_tokens": inputTokens, "input_tokens_details": map[string]any{"cached_tokens": cachedTokens},
			"output_tokens": outputTokens, "output_tokens_details": map[string]any{"reasoning_tokens": 0}, "total_tokens": inputTokens + outputTokens,
		},
	}})
}

// items are the output of a response.
func items(m *Model, step Step) []map[string]any {
	var of []map[string]any
	if step.Thought != "" {
		of = append(of, map[string]any{"type": "reasoning", "id": fmt.Sprintf("rs_%d", m.number()), "summary": []any{map[string]any{"type": "summary_text", "text": step.Thought}}})
	}
	if step.Text != "" {
		of = append(of, map[string]any{"type": "message", "id": fmt.Sprintf("msg_%d", m.number()), "role": "assistant", "status": "completed",
			"content": []any{map[string]any{"type": "output_text", "text": step.Text, "annotations": []any{}}}})
	}
	for _, c := range step.Calls {
		n := m.number()
		item := map[string]any{"id": fmt.Sprintf("fc_%d", n), "call_id": fmt.Sprintf("call_%d", n), "name": c.Name, "status": "completed"}
		if c.Namespace != "" {
			item["namespace"] = c.Namespace
		}
		if c.Free != "" {
			item["type"], item["input"] = "custom_tool_call", c.Free
		} else {
			args, _ := json.Marshal(c.Args) // it was made of JSON's own types
			item["type"], item["arguments"] = "function_call", string(args)
		}
		of = append(of, item)
	}
	return of
}

// sendItem sends an item as its begin, its pieces and its end.
func sendItem(out events, i int, item map[string]any) {
	begin := map[string]any{}
	maps.Copy(begin, item)
	switch item["type"] {
	case "message":
		begin["content"] = []any{}
	case "reasoning":
		begin["summary"] = []any{}
	}
	out.send(map[string]any{"type": "response.output_item.added", "output_index": i, "item": begin})
	switch item["type"] {
	case "message":
		content, _ := item["content"].([]any)
		part, _ := content[0].(map[string]any)
		text, _ := part["text"].(string)
		for _, piece := range strings.SplitAfter(text, " ") {
			out.send(map[string]any{"type": "response.output_text.delta", "item_id": item["id"], "output_index": i, "content_index": 0, "delta": piece})
		}
	case "reasoning":
		summary, _ := item["summary"].([]any)
		part, _ := summary[0].(map[string]any)
		out.send(map[string]any{"type": "response.reasoning_summary_part.added", "item_id": item["id"], "output_index": i, "summary_index": 0, "part": map[string]any{"type": "summary_text", "text": ""}})
		out.send(map[string]any{"type": "response.reasoning_summary_text.delta", "item_id": item["id"], "output_index": i, "summary_index": 0, "delta": part["text"]})
	}
	out.send(map[string]any{"type": "response.output_item.done", "output_index": i, "item": item})
}
