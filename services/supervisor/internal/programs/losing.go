package programs

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
)

const (
	// goneReason says why a session ended that nobody closed.
	goneReason = "the agent is gone"
	// maxLost bounds the sessions of one agent that are remembered with why they were lost.
	maxLost = 1000
	// maxWhy bounds what is said of that, in bytes.
	maxWhy = 2 << 10
)

// notice tells a person something about a session, in acphost's name.
func (reg *Registry) notice(s *session, severity, title, description string) {
	reg.opts.Hub.Tell(s.agent.identity.ID, event.AppendNotice(nil, s.id, severity, title, description))
}

// lose ends a session that nobody closed, and tells of it.
func (reg *Registry) lose(s *session, reason string) { reg.loseFor(s, reason, "", "") }

// loseFor ends a session for a reason that a person should know, and tells why: those who watch, whoever reads its record,
// and whoever asks for it later. An empty title: nobody needs to know.
func (reg *Registry) loseFor(s *session, reason, title, why string) {
	if !reg.drop(s) {
		return
	}
	if title != "" {
		why = strings.ToValidUTF8(why[:min(len(why), maxWhy)], "")
		reg.mu.Lock()
		if a := s.agent; len(a.lost) < maxLost {
			a.lost[s.id] = why
		}
		reg.mu.Unlock()
		reg.notice(s, "error", title, why)
	}
	reg.opts.Hub.Tell(s.agent.identity.ID, event.AppendClosed(nil, s.id, reason))
}

// whyLost says why a session that was open is not any more, as a part of a sentence; empty: it is not known. Nil: of any
// agent. The Registry's mu is held.
func (reg *Registry) whyLost(only *instance, id string) string {
	for _, a := range reg.agents {
		if why := a.lost[id]; why != "" && (only == nil || only == a) {
			return " any more (" + why + ")"
		}
	}
	return ""
}

// drop takes a session off the list, and ends the turn that its agent has not; false: it was not there any more.
func (reg *Registry) drop(s *session) bool {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	if s.agent.sessions[s.id] != s {
		return false
	}
	delete(s.agent.sessions, s.id)
	reg.sessions--
	if s.turn != nil {
		s.turn.leave()
	}
	return true
}

// loseSessions ends all sessions of an agent that is gone. A failure is why it is not started again; nil: it was stopped.
func (a *instance) loseSessions(failure *supervisorv1.AgentError) {
	for _, s := range a.openSessions() {
		if failure == nil {
			a.reg.lose(s, goneReason)
			continue
		}
		a.reg.loseFor(s, goneReason, "The agent has failed, and the session with it", failure.GetMessage())
	}
}
