package e2e_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// A sidecar that is down is named in the errors of calls and in the agent's questions, and used as soon as it is back.
func TestSidecar_ThatIsDownIsNamed(t *testing.T) {
	t.Parallel()
	p, daemons := newPlace(t), newPlace(t)
	fsd, address := daemons.sidecar(t, "fsd")
	p.file(t, "a.txt", "a\n")
	s := p.scene(t, p.policy(t, rules, fmt.Sprintf("handlers: {fs: {address: %q, secret_file: %q, agent_may_call: true}}", address, daemons.secret(t))))
	services := s.dial(t, s.PID())
	handler := func() *supervisorv1.HandlerStatus {
		t.Helper()
		list, err := services.state.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range list.GetHandlers() {
			if h.GetName() == "fs" {
				return h
			}
		}
		t.Fatal("handler fs is not listed")
		return nil
	}
	s.answered(t, s.ask(edit(p.path("a.txt")), options), "yes")

	fsd.kill()
	testkit.Eventually(t, "the sidecar is missed", func() bool { return handler().GetState() != supervisorv1.HandlerState_HANDLER_STATE_READY })
	// Nothing here starts it, and the log does not say so.
	testkit.Eventually(t, "the log says that it cannot be reached", func() bool {
		return strings.Contains(s.Stderr(), "sidecar cannot be reached: connecting again until it can")
	})
	if log := s.Stderr(); strings.Contains(log, "starting it again") {
		t.Errorf("the log says that a sidecar is started:\n%s", log)
	}
	for range 3 {
		const want = "handler fs cannot be reached: acphost connects again as soon as the sidecar runs"
		if e := s.read("a.txt").Refused(-32603); !strings.Contains(e.Message, want) {
			t.Errorf("the agent was told %q, want %q in it", e.Message, want)
		}
	}
	asked := s.ask(edit(p.path("a.txt")), options)
	question := s.Expect("session/request_permission") // no question about the calls came before it
	list, err := services.approvals.ListApprovals(wire.Context(t), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("these questions wait: %v, %v", list, err)
	}
	q := list.GetApprovals()[0]
	if reason := q.GetPermission().GetReason(); !strings.Contains(reason, "handler fs is down") {
		t.Errorf("the reason of the question is %q, which does not name the handler that is down", reason)
	}
	s.Reply(question, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := chosen(t, asked); got != "no" {
		t.Errorf("the agent got %q", got)
	}

	// The question that acphost asks about a call of another handler names it, too.
	run := s.agent.Send("terminal/create", params("command", "git push > a.txt"))
	own := s.asked()
	if title := own.Params.ToolCall.Title; !strings.Contains(title, "handler fs is down") {
		t.Errorf("the title of acphost's own question is %q, which does not name the handler that is down", title)
	}
	s.choose(own, own.Params.Options[len(own.Params.Options)-1].OptionID)
	run.Answer()

	// However often it could not be reached, it is tried again every half second.
	tries := map[string]bool{}
	testkit.Eventually(t, "many tries", func() bool {
		tries[handler().GetSince().String()] = true
		return len(tries) >= 16 // each changes the state twice
	})
	daemons.sidecar(t, "fsd")
	testkit.Eventually(t, "the sidecar is used again", func() bool { return s.read("a.txt").Answer().Error == nil })
	if h := handler(); h.GetState() != supervisorv1.HandlerState_HANDLER_STATE_READY || h.GetError() != "" || h.GetRestarts() != 1 {
		t.Errorf("the handler is shown as %v after %d restarts, with the error %q", h.GetState(), h.GetRestarts(), h.GetError())
	}
	s.answered(t, s.ask(edit(p.path("a.txt")), options), "yes")
}
