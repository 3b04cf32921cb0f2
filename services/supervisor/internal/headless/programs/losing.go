package programs

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

const (
	// goneReason is the reason of a session that ended with its agent.
	goneReason = "the agent is gone"
	// maxLost limits the lost sessions of one agent whose reasons are kept.
	maxLost = 1000
	// maxWhy limits such a reason, in bytes.
	maxWhy = 2 << 10
)

// notice sends users a notice about a session, in acphost's name.
func (reg *Registry) notice(s *session, severity, title, description string) {
	reg.opts.Hub.Notify(s.agent.identity.ID, event.AppendNotice(nil, s.id, severity, title, description))
}

// endLost ends a session without a request, and publishes that.
func (reg *Registry) endLost(s *session, reason string) { reg.endLostFor(s, reason, "", "") }

// endLostFor ends a session for a reason that users should know, and publishes it: to watchers, in the record, and for
// later requests for the session. An empty title means that there is no notice.
func (reg *Registry) endLostFor(s *session, reason, title, why string) {
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

// lostReason returns why a session that was open has ended, as a part of a sentence, or "" if it is unknown. only
// restricts it to one agent; nil means any. The Registry's mu is held.
func (reg *Registry) lostReason(only *instance, id string) string {
	for _, a := range reg.agents {
		if why := a.lost[id]; why != "" && (only == nil || only == a) {
			return " any more (" + why + ")"
		}
	}
	return ""
}

// drop removes a session, and ends its turn. It returns false if it was removed already.
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

// loseSessions ends all sessions of an agent that has ended. failure is the reason why it is not restarted; nil means
// that it was stopped.
func (a *instance) loseSessions(failure *supervisorv1.AgentError) {
	for _, s := range a.openSessions() {
		if failure == nil {
			a.reg.endLost(s, goneReason)
			continue
		}
		a.reg.endLostFor(s, goneReason, "The agent has failed, and the session with it", failure.GetMessage())
	}
}
