package programs

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/event"
)

const (
	// goneReason is the reason of a session that ended with its agent.
	goneReason = "the agent is gone"
	// maxLost bounds the lost sessions of one agent whose reasons are kept.
	maxLost = 1000
	// maxWhy bounds such a reason, in bytes.
	maxWhy = 2 << 10
)

// notice sends a person a notice about a session, in acphost's name.
func (reg *Registry) notice(s *session, severity, title, description string) {
	reg.opts.Hub.Notify(s.agent.identity.ID, event.AppendNotice(nil, s.id, severity, title, description))
}

// lose ends a session without a request, and publishes that.
func (reg *Registry) lose(s *session, reason string) { reg.loseFor(s, reason, "", "") }

// loseFor ends a session for a reason that a person should know, and publishes why: to watchers, in the record, and to later requests for
// the session. An empty title: no notice.
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
	reg.opts.Hub.Notify(s.agent.identity.ID, event.AppendClosed(nil, s.id, reason))
}

// whyLost says why a session that was open has ended, as a part of a sentence; empty: unknown. only restricts it to one agent; nil: any.
// The Registry's mu is held.
func (reg *Registry) whyLost(only *instance, id string) string {
	for _, a := range reg.agents {
		if why := a.lost[id]; why != "" && (only == nil || only == a) {
			return " any more (" + why + ")"
		}
	}
	return ""
}

// drop removes a session, and ends its turn; false: it was removed already.
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

// loseSessions ends all sessions of an agent that has ended. failure says why it is not restarted; nil: it was stopped.
func (a *instance) loseSessions(failure *supervisorv1.AgentError) {
	for _, s := range a.openSessions() {
		if failure == nil {
			a.reg.lose(s, goneReason)
			continue
		}
		a.reg.loseFor(s, goneReason, "The agent has failed, and the session with it", failure.GetMessage())
	}
}
