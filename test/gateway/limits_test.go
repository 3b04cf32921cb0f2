package gateway_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/limits"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestStreams_PassMessagesUpToLimit has an agent send messages of limits.Whole bytes, one less and one more. The caller
// of Prompt, watchers, the console's stream and a client attached over the gateway get them whole, or a gap that names
// the size.
func TestStreams_PassMessagesUpToLimit(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.NewConsole(t, p, p.Config(t, fmt.Sprintf("serve: {gateway_agents: [{command: [%s]}]}\n", e2e.Program("demoagent")))...)
	stage := p.Stage(t)
	request := p.Demo()
	request.Command = stage.Command
	started := make(chan error, 1)
	var agentID string
	go func() {
		response, err := g.Agents.StartAgent(g.Ctx, request)
		agentID = response.GetAgent().GetId()
		started <- err
	}()
	agent := stage.Play(t)
	agent.Handle("initialize", func(wire.Message) (any, error) { return map[string]any{"protocolVersion": 1}, nil })
	agent.Handle("session/new", func(wire.Message) (any, error) { return map[string]any{"sessionId": "s"}, nil })
	if err := <-started; err != nil {
		t.Fatal(e2e.Explain(err))
	}
	session := g.Open(agentID).GetSessionId()
	update := func(text string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"` + text + `"}}}}`
	}
	around := len(update("")) + 1 // with the line feed

	over, err := client.DialGateway(g.At, nil, g.Token("operator"))
	if err != nil {
		t.Fatal(err)
	}
	defer over.Close()
	attached := g.Client(t, "attached", g.Token("operator"), "")
	attached.Attaches(session, map[string]any{"historyPolicy": "none"})
	watching := g.Watch(&supervisorv1.WatchSessionRequest{SessionId: session})
	console, err := over.Sessions.WatchSession(g.Ctx, &supervisorv1.WatchSessionRequest{AgentId: agentID, SessionId: session})
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{limits.Whole - 1, limits.Whole, limits.Whole + 1} {
		want := size - around
		agent.Handle("session/prompt", func(wire.Message) (any, error) {
			agent.Write(update(strings.Repeat("x", want)))
			agent.Write(update("done"))
			return map[string]any{"stopReason": "end_turn"}, nil
		})
		seen := map[string][]*supervisorv1.Event{}
		turn, err := over.Prompt(g.Ctx, &supervisorv1.PromptRequest{AgentId: agentID, SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("go")}})
		if err != nil {
			t.Fatal(err)
		}
		for ev, err := range turn.Events() {
			if err != nil {
				t.Fatalf("%d bytes: the caller: %v", size, err)
			}
			seen["caller"] = append(seen["caller"], ev)
		}
		watching.Until("the turn's end", func(e *supervisorv1.Event) bool {
			seen["watcher"] = append(seen["watcher"], e)
			return e.GetTurnEnded() != nil
		})
		for ended := false; !ended; {
			response, err := console.Recv()
			if err != nil {
				t.Fatalf("%d bytes: the console's stream: %v", size, err)
			}
			ev := response.GetEvent()
			seen["console"] = append(seen["console"], ev)
			ended = ev.GetTurnEnded() != nil
		}
		for watcher, events := range seen {
			got, gap := 0, ""
			for _, e := range events {
				if message := e.GetAgentMessage().GetContent().GetText().GetText(); message != "done" {
					got += len(message)
				}
				if g := e.GetGap(); g != nil {
					gap += g.GetReason()
				}
			}
			switch whole := size <= limits.Whole; {
			case whole && (got != want || gap != ""):
				t.Errorf("%d bytes: the %s got %d bytes of %d, and the gap %q", size, watcher, got, want, gap)
			case !whole && (got != 0 || !strings.Contains(gap, fmt.Sprintf("a message of %d bytes", size))):
				t.Errorf("%d bytes: the %s got %d bytes, and the gap %q", size, watcher, got, gap)
			}
		}
		heard := 0
		for done := false; !done; {
			m := attached.Expect("session/update")
			var params struct {
				Update struct{ Content json.RawMessage }
			}
			m.Decode(t, &params)
			done = strings.Contains(string(params.Update.Content[:min(100, len(params.Update.Content))]), `"done"`)
			if !done {
				heard = max(heard, len(params.Update.Content))
			}
		}
		if whole := heard >= want; whole != (size <= limits.Whole) {
			t.Errorf("%d bytes: the attached client got %d bytes at most", size, heard)
		}
	}
	g.Leave()
}
