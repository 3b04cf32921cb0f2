package programs

import (
	"context"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// maxEarlyEvents limits the events that are kept of a session before its first turn.
const maxEarlyEvents = 256

// earlyEvents collects an agent's events while a session is being opened. The first prompt of the session returns them,
// since its caller could not watch a session without an id.
type earlyEvents struct {
	sub  *activity.Subscription
	done chan struct{}
	of   map[string][]*supervisorv1.Event // by session
}

// watchEarly starts collecting. The caller calls take or drop.
func (reg *Registry) watchEarly(agentID string) *earlyEvents {
	w := &earlyEvents{sub: reg.opts.Hub.Subscribe(agentID, ""), done: make(chan struct{}), of: map[string][]*supervisorv1.Event{}}
	go func() {
		defer close(w.done)
		defer panics.Recover(reg.log, "keeping an agent's updates before a session's first turn")
		for kept := 0; ; {
			e, err := w.sub.Next(context.Background()) // drop closes it
			if err != nil {
				return
			}
			if event.OutputOfTurn(e) && !e.GetHistory() && kept < maxEarlyEvents {
				w.of[e.GetSessionId()] = append(w.of[e.GetSessionId()], e)
				kept++
			}
		}
	}()
	return w
}

// take stops collecting, and returns the events of a session.
func (w *earlyEvents) take(session string) []*supervisorv1.Event {
	w.drop()
	return w.of[session]
}

// drop stops collecting. It may be called again.
func (w *earlyEvents) drop() {
	w.sub.Close()
	<-w.done
}
