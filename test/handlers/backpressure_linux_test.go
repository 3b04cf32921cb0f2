package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestBackpressure_SlowEditorBlocksAgent(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Fixture(t, nil)
	release := s.Hold()
	const count = 96
	update := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + strings.Repeat("x", 1<<20) + `"}}}}`
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for range count {
			s.Agent.Write(update)
		}
	}()
	// The editor can still send messages, and the agent receives them.
	prompt := s.Send("session/prompt", e2e.Params("prompt", []any{}))
	prompted := s.Agent.Expect("session/prompt")
	select {
	case <-sent:
		t.Error("the agent could write unread messages without limit")
	default:
	}
	release()
	for range count {
		if got := s.Expect("session/update"); string(got.Raw) != update {
			t.Fatalf("an update of %d bytes arrived, want %d", len(got.Raw), len(update))
		}
	}
	<-sent
	s.Agent.Reply(prompted, map[string]any{"stopReason": "end_turn"}) // not before: the writes are queued after the updates
	prompt.Result(nil)
	if peak := peakMemory(t, s.PID()); peak > 80<<20 {
		t.Errorf("acphost took %d MiB at the most", peak>>20)
	}
	s.Finish()
}

func TestBackpressure_ExitReachesAgentDespiteSlowEditor(t *testing.T) {
	t.Parallel()
	for name, capabilities := range map[string]string{"one that shows terminals": e2e.ShowsTerminals, "one that does not": `{}`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := e2e.NewPlace(t).FixtureWith(t, capabilities, nil, nil)
			id, mention := s.Terminal("seq 1 1000000; exit 3")
			s.Agent.Write(mention)
			s.Expect("session/update")
			release := s.Hold()
			var exit struct{ ExitCode int }
			s.Agent.Request("terminal/wait_for_exit", e2e.Params("terminalId", id), &exit)
			if exit.ExitCode != 3 {
				t.Errorf("the command exited with %d, want 3", exit.ExitCode)
			}
			s.Agent.Request("terminal/release", e2e.Params("terminalId", id), nil)
			release()
			s.Finish()
		})
	}
}

func TestBackpressure_RejectsExcessRequests(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, p.Config(t, "limits: {max_queued_requests: 100, max_concurrent_requests: 4}\n"))
	const count = 3000
	var lines strings.Builder
	for i := range count {
		fmt.Fprintf(&lines, `{"jsonrpc":"2.0","id":"q%d","method":"fs/read_text_file","params":{"sessionId":"s1","path":%q}}`+"\n", i, p.Path("a.txt"))
	}
	s.Agent.Write(strings.TrimSuffix(lines.String(), "\n"))
	answered := map[string]bool{}
	refused := 0
	for range count {
		m := s.Agent.Next()
		if answered[string(m.ID)] {
			t.Fatalf("a second answer: %s", m.Raw)
		}
		answered[string(m.ID)] = true
		if m.Error != nil {
			refused++
			if m.Error.Code != -32603 || !strings.Contains(m.Error.Message, "max_queued_requests") {
				t.Fatalf("a request was refused with %v", m.Error)
			}
		}
	}
	if refused == 0 || refused > count-100 {
		t.Errorf("%d of %d requests were refused", refused, count)
	}
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("after that a read gave %q", got)
	}
	s.Finish()
}

func TestBackpressure_EditorLossEndsEverything(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{}`, p.Config(t, "agent: {stop_grace_ms: 200}\n"), []string{"stubborn", "family"})
	release := s.Hold()
	defer release()
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = s.Agent.Conn.Write([]byte(strings.Repeat(`{"jsonrpc":"2.0","method":"_n"}`+"\n", 1<<18))) // it will be cut short
	}()
	family := s.Family()
	s.Close()
	s.ExpectExit()
	p.ExpectNobody(t, family)
	<-sent
}
