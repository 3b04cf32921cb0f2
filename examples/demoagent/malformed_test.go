package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"testing"
)

// TestCancel_AfterMalformedPromptSparesNextTurn: a rejected prompt begins no turn. If it were counted as one, a later
// cancellation would cancel the next turn.
func TestCancel_AfterMalformedPromptSparesNextTurn(t *testing.T) {
	toAgent, client := io.Pipe()
	out, fromAgent := io.Pipe()
	agent := serve(toAgent, fromAgent, behaviour{exitInitialize: -1}, slog.New(slog.DiscardHandler))
	t.Cleanup(func() {
		_ = client.Close()
		go func() { _, _ = io.Copy(io.Discard, out) }()
		<-agent.Done()
		_ = fromAgent.Close()
	})
	lines := bufio.NewScanner(out)
	call := func(id int, method, params string) (result struct{ SessionID, StopReason string }) {
		t.Helper()
		if _, err := fmt.Fprintf(client, `{"jsonrpc":"2.0","id":%d,"method":%q,"params":%s}`+"\n", id, method, params); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			var m struct {
				ID     *int
				Method string
				Result struct{ SessionID, StopReason string }
			}
			if err := json.Unmarshal(lines.Bytes(), &m); err == nil && m.ID != nil && *m.ID == id && m.Method == "" {
				return m.Result
			}
		}
		t.Fatalf("the agent's output ended before its answer to %s", method)
		return result
	}
	call(1, "initialize", `{"protocolVersion":1}`)
	session := call(2, "session/new", `{"cwd":"/w","mcpServers":[]}`).SessionID
	for id, prompt := range []string{`"no list"`, `5`, `{}`} {
		call(3+id, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":%s}`, session, prompt))
	}
	call(10, "session/cancel", fmt.Sprintf(`{"sessionId":%q}`, session))
	if got := call(11, "session/prompt", fmt.Sprintf(`{"sessionId":%q,"prompt":[{"type":"text","text":"repeat hello"}]}`, session)).StopReason; got != "end_turn" {
		t.Errorf("the turn ended with %q, want end_turn", got)
	}
}
