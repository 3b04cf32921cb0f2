package protocol_test

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestVersion2_AgentIsDrivenInItsForm(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Serve(t, nil)
	st := s.Stage(t)
	started := make(chan error, 1)
	var agent *supervisorv1.Agent
	go func() {
		resp, err := s.Agents.StartAgent(s.Ctx, &supervisorv1.StartAgentRequest{Command: st.Command, Cwd: s.Work})
		agent = resp.GetAgent()
		started <- err
	}()
	actor := st.Play(t)
	actor.Refuse(actor.Expect("initialize"), &wire.Error{Code: -32022, Message: "Unsupported protocol version"})
	hello := actor.Expect("initialize")
	if strings.Contains(string(hello.Raw), "clientCapabilities") || !strings.Contains(string(hello.Raw), `"protocolVersion":2,"capabilities":{`) {
		t.Errorf("the agent was asked %s, want the form of version 2 alone", hello.Raw)
	}
	actor.Reply(hello, map[string]any{"protocolVersion": 2, "info": map[string]any{"name": "two", "version": "1"}, "capabilities": map[string]any{}})
	if err := <-started; err != nil {
		t.Fatal(e2e.Explain(err))
	}
	if err := s.Opens(agent, actor, "s"); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	turn := s.Prompts(agent, "s")
	actor.Reply(actor.Expect("session/prompt"), map[string]any{"messageId": "u"})
	actor.Update("s", `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"after the answer"}}`)
	actor.Update("s", `{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
	turn.Stopped("end_turn")
	if turn.Said() != "after the answer" {
		t.Errorf("the agent sent %q", turn.Said())
	}
	s.Finish()
}
