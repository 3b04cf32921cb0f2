package handlers_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestSidecar_DownIsNamedInErrors: errors of calls and the agent's questions name a sidecar that is down. It is used
// again as soon as it is back.
func TestSidecar_DownIsNamedInErrors(t *testing.T) {
	t.Parallel()
	p, daemons := e2e.NewPlace(t), e2e.NewPlace(t)
	fsd, address := daemons.Sidecar(t, "fsd")
	p.File(t, "a.txt", "a\n")
	s := p.Fixture(t, p.Policy(t, e2e.Rules, fmt.Sprintf("handlers: {fs: {address: %q, secret_file: %q, agent_may_call: true}}", address, daemons.Secret(t))))
	services := s.Dial(t, s.PID())
	handler := func() *supervisorv1.HandlerStatus {
		t.Helper()
		list, err := services.State.ListHandlers(wire.Context(t), &supervisorv1.ListHandlersRequest{})
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
	s.Answered(t, s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options), "yes")

	fsd.Kill()
	testkit.Eventually(t, "the sidecar is missed", func() bool { return handler().GetState() != supervisorv1.HandlerState_HANDLER_STATE_READY })
	// acphost does not start the sidecar, and the log does not claim so.
	testkit.Eventually(t, "the log states that it cannot be reached", func() bool {
		return strings.Contains(s.Stderr(), "sidecar cannot be reached: connecting again until it can")
	})
	if log := s.Stderr(); strings.Contains(log, "starting it again") {
		t.Errorf("the log states that a sidecar is started:\n%s", log)
	}
	for range 3 {
		const want = "handler fs cannot be reached: acphost connects again as soon as the sidecar runs"
		if e := s.Read("a.txt").Refused(-32603); !strings.Contains(e.Message, want) {
			t.Errorf("the agent received %q, want %q in it", e.Message, want)
		}
	}
	asked := s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options)
	question := s.Expect("session/request_permission") // no question about the calls came before it
	list, err := services.Approvals.ListApprovals(wire.Context(t), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(list.GetApprovals()) != 1 {
		t.Fatalf("these questions wait: %v, %v", list, err)
	}
	q := list.GetApprovals()[0]
	if reason := q.GetPermission().GetReason(); !strings.Contains(reason, "handler fs is not running") {
		t.Errorf("the reason of the question is %q, which does not name the handler that is down", reason)
	}
	s.Reply(question, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
	if got := e2e.Chosen(t, asked); got != "no" {
		t.Errorf("the agent got %q", got)
	}

	// The question that acphost asks about a call of another handler names it, too.
	run := s.Agent.Send("terminal/create", e2e.Params("command", "git push > a.txt"))
	own := s.Asked()
	if title := own.Params.ToolCall.Title; !strings.Contains(title, "handler fs is down") {
		t.Errorf("the title of acphost's own question is %q, which does not name the handler that is down", title)
	}
	s.Choose(own, own.Params.Options[len(own.Params.Options)-1].OptionID)
	run.Answer()

	// However often it could not be reached, it is tried again every half second.
	tries := map[string]bool{}
	testkit.Eventually(t, "many tries", func() bool {
		tries[handler().GetSince().String()] = true
		return len(tries) >= 16 // each changes the state twice
	})
	daemons.Sidecar(t, "fsd")
	testkit.Eventually(t, "the sidecar is used again", func() bool { return s.Read("a.txt").Answer().Error == nil })
	if h := handler(); h.GetState() != supervisorv1.HandlerState_HANDLER_STATE_READY || h.GetError() != "" || h.GetRestarts() != 1 {
		t.Errorf("the handler is shown as %v after %d restarts, with the error %q", h.GetState(), h.GetRestarts(), h.GetError())
	}
	s.Answered(t, s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options), "yes")
}
