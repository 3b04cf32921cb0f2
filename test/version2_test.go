package e2e_test

import (
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

func TestAnAgentOfVersion2AloneIsDrivenInItsOwnForm(t *testing.T) {
	t.Parallel()
	s := newPlace(t).serve(t, nil)
	st := s.newStage(t)
	started := make(chan error, 1)
	var agent *supervisorv1.Agent
	go func() {
		resp, err := s.agents.StartAgent(s.ctx, &supervisorv1.StartAgentRequest{Command: st.command, Cwd: s.work})
		agent = resp.GetAgent()
		started <- err
	}()
	actor := st.play(t)
	actor.Refuse(actor.Expect("initialize"), &wire.Error{Code: -32022, Message: "Unsupported protocol version"})
	hello := actor.Expect("initialize")
	if strings.Contains(string(hello.Raw), "clientCapabilities") || !strings.Contains(string(hello.Raw), `"protocolVersion":2,"capabilities":{`) {
		t.Errorf("the agent was asked %s, want the form of version 2 alone", hello.Raw)
	}
	actor.Reply(hello, map[string]any{"protocolVersion": 2, "info": map[string]any{"name": "two", "version": "1"}, "capabilities": map[string]any{}})
	if err := <-started; err != nil {
		t.Fatal(explain(err))
	}
	if err := s.opens(agent, actor, "s"); err != nil {
		t.Fatal(explain(err))
	}
	turn := s.prompts(agent, "s")
	actor.Reply(actor.Expect("session/prompt"), map[string]any{"messageId": "u"})
	actor.update("s", `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"after the answer"}}`)
	actor.update("s", `{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
	turn.stopped("end_turn")
	if turn.said() != "after the answer" {
		t.Errorf("the agent said %q", turn.said())
	}
	s.finish()
}
