package agents

import (
	"syscall"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const secretWord = "I remember the word xyzzy."

// killsInATurn has a session remember something, kills its agent in a turn, and returns how that turn ended.
func (r *rig) killsInATurn(s *supervisorv1.Session, m *Model, kill func()) *supervisorv1.TurnEnded {
	r.t.Helper()
	m.Play(Step{Text: secretWord})
	r.prompt(s, "Remember.").stopped("end_turn")
	m.Play(Step{Text: "Wait a moment. ", Hang: true})
	u := r.prompt(s, "Wait.")
	u.until("it hangs", func(e *supervisorv1.Event) bool { return e.GetAgentMessage().GetContent().GetText().GetText() != "" })
	kill()
	return u.end()
}

// killed kills the agent's own process.
func killed(t *testing.T, agent *supervisorv1.Agent) func() {
	return func() {
		t.Helper()
		if err := syscall.Kill(int(agent.GetPid()), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
}

// expectKilled checks that a turn ended with its agent's crash.
func expectKilled(t *testing.T, end *supervisorv1.TurnEnded) {
	t.Helper()
	if end.GetError().GetKind() != supervisorv1.ErrorKind_ERROR_KIND_CRASHED || end.GetError().GetSignal() != "SIGKILL" {
		t.Errorf("the turn ends with %v", end)
	}
}

// goesOn checks that a session is available again, and has its history.
func (r *rig) goesOn(s *supervisorv1.Session, m *Model) {
	r.t.Helper()
	r.resumed(s)
	m.Play(Step{Text: "It was xyzzy."})
	u := r.prompt(s, "What was it?")
	u.stopped("end_turn")
	u.expectSaid("It was xyzzy.")
	if !m.Heard(secretWord) {
		r.t.Error("the agent does not remember the session")
	}
}

// storesAndForks checks that the sessions that an agent has stored are listed, loaded and forked.
func (r *rig) storesAndForks(agent *supervisorv1.Agent, s *supervisorv1.Session, m *Model) {
	r.t.Helper()
	r.expectStored(agent, s)
	r.expectLoaded(agent, s, secretWord)
	forked, err := r.Sessions.ForkSession(r.ctx, &supervisorv1.ForkSessionRequest{AgentId: agent.GetId(), SessionId: s.GetSessionId()})
	if err != nil {
		r.t.Fatal(explain(err))
	}
	m.Play(Step{Text: "Apart."})
	u := r.prompt(forked.GetSession(), "And you?")
	u.stopped("end_turn")
	u.expectSaid("Apart.")
}

// cancels cancels a turn that hangs, and checks that the session accepts another one.
func (r *rig) cancels(s *supervisorv1.Session, m *Model) {
	r.t.Helper()
	m.Play(Step{Text: "Wait a moment. ", Hang: true})
	u := r.prompt(s, "Wait.")
	u.until("it hangs", func(e *supervisorv1.Event) bool { return e.GetAgentMessage() != nil })
	<-m.Hanging()
	if _, err := r.Sessions.CancelPrompt(r.ctx, &supervisorv1.CancelPromptRequest{AgentId: s.GetAgentId(), SessionId: s.GetSessionId()}); err != nil {
		r.t.Fatal(explain(err))
	}
	u.stopped("cancelled")
	m.Play(Step{Text: "Still here."})
	u = r.prompt(s, "And?")
	u.stopped("end_turn")
	u.expectSaid("Still here.")
}
