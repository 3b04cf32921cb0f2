package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/limits"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestGateway_DropsMessagesOverLimit has the agent and the client of a session send messages that are too long. The log
// names the sender, and this session and another one continue.
func TestGateway_DropsMessagesOverLimit(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		supervisor int                                                          // limits.max_message_bytes
		send       func(owner *e2e.SocketPeer, agent *e2e.ScriptedAgent) string // returns the expected log; empty: nothing is dropped
	}{
		"request of client": {limits.Message, func(owner *e2e.SocketPeer, _ *e2e.ScriptedAgent) string {
			if e := owner.Prompts(strings.Repeat("x", limits.Whole)).Refused(-32600); !strings.Contains(string(e.Data), fmt.Sprintf("more than the %d that a message over a gateway may have", limits.Whole)) {
				owner.T.Errorf("the client was answered %v, without the reason", e)
			}
			return "method=session/prompt\n"
		}},
		"answer of client": {limits.Message, func(owner *e2e.SocketPeer, agent *e2e.ScriptedAgent) string {
			request := agent.Send("_a.example/ask", map[string]any{"sessionId": "s"})
			owner.Reply(owner.Expect("_a.example/ask"), strings.Repeat("x", limits.Whole))
			if e := request.Refused(-32600); !strings.Contains(string(e.Data), "the client's answer was dropped") {
				owner.T.Errorf("the agent was answered %v, without the reason", e)
			}
			return `level=WARN msg="a client sent a message that is too long; it was dropped"`
		}},
		"update of agent": {limits.Message, func(owner *e2e.SocketPeer, agent *e2e.ScriptedAgent) string { // a gateway sets no limit for agents
			agent.Notify("session/update", map[string]any{"sessionId": "s", "update": map[string]any{"sessionUpdate": "agent_message_chunk",
				"content": map[string]any{"type": "text", "text": strings.Repeat("x", limits.Whole)}}})
			if m := owner.Expect("session/update"); len(m.Raw) < limits.Whole {
				owner.T.Errorf("the client got %d bytes", len(m.Raw))
			}
			return ""
		}},
		"answer of agent": {1 << 20, func(owner *e2e.SocketPeer, agent *e2e.ScriptedAgent) string {
			asked := owner.Send("_a.example/ask", map[string]any{"sessionId": "s"})
			agent.Reply(agent.Expect("_a.example/ask"), strings.Repeat("x", 1<<20))
			if e := asked.Refused(-32603); !strings.Contains(e.Message, "the agent's answer was dropped") {
				owner.T.Errorf("the client was answered %v, without the reason", e)
			}
			return `the agent sent a message over the limit; it was dropped`
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			st := p.Stage(t)
			command, err := json.Marshal(st.Command)
			if err != nil {
				t.Fatal(err)
			}
			g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: puppet, command: %s}, {name: demo, command: [%q]}]}\nlimits: {max_message_bytes: %d", command, e2e.Program("demoagent"), c.supervisor))
			other := g.Client(t, "other", g.Token("operator"), "?agent=demo")
			other.Opens(p.Work)
			playing := make(chan *e2e.ScriptedAgent, 1)
			go func() {
				agent := st.Play(t)
				agent.Reply(agent.Expect("initialize"), map[string]any{"protocolVersion": 1})
				agent.Reply(agent.Expect("session/new"), map[string]any{"sessionId": "s"})
				agent.Handle("session/prompt", func(wire.Message) (any, error) { return map[string]any{"stopReason": "end_turn"}, nil })
				playing <- agent
			}()
			owner := g.Client(t, "owner", g.Token("operator"), "?agent=puppet")
			owner.Opens(p.Work)

			want := c.send(owner, <-playing)
			for _, client := range []*e2e.SocketPeer{owner, other} {
				client.Prompts("repeat hello").Result(nil)
			}
			logs := func() string { return g.Running.Stderr() + g.Stderr() }
			testkit.Eventually(t, "the log states what was dropped", func() bool { return strings.Contains(logs(), want) })
			if n := strings.Count(logs(), "was dropped"); n != min(len(want), 1) {
				t.Errorf("the logs have %d lines about messages that were dropped:\n%s", n, logs())
			}
			if log := logs(); strings.Contains(log, "connection is over") {
				t.Errorf("a connection ended:\n%s", log)
			}
			owner.Close()
			other.Close()
			g.Leave()
		})
	}
}
