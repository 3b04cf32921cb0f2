package programs

import "github.com/acphost/acphost/services/supervisor/internal/activity"

// HubOf is the Hub that an activity.Hub is.
func HubOf(h *activity.Hub) Hub { return hub{h} }

type hub struct{ *activity.Hub }

func (h hub) Subscribe(agentID, sessionID string) Subscription {
	return h.Hub.Subscribe(agentID, sessionID)
}
