package activity

import (
	"context"
	"time"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// maxLate limits how long late updates can delay the end of a turn, after the agent has answered the prompt.
const maxLate = 30 * time.Second

// turnEnd is a turn that the agent has ended, and that waits for late updates: its end is published once the session
// has been quiet for Options.TurnGrace.
type turnEnd struct {
	key   string
	at    time.Time // time of the last output, by the frames' clock
	began time.Time
	timer *time.Timer
	done  chan struct{} // closed when the end is published
}

// AwaitTurnEnd waits until the end of a session's turn is published, if the agent has ended the turn, and until
// watchers have got all earlier events. The error is that of ctx.
func (h *Hub) AwaitTurnEnd(ctx context.Context, agentID, sessionID string) error {
	if err := h.Sync(ctx); err != nil {
		return err
	}
	h.stateMu.Lock()
	end := h.turnEnds[sessionKey{agentID, sessionID}]
	h.stateMu.Unlock()
	if end == nil {
		return nil
	}
	select {
	case <-end.done:
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// holdTurnEnds starts, extends and ends the wait for late updates, after a frame of an agent was decoded. stateMu is
// held.
func (h *Hub) holdTurnEnds(p *port) {
	if p.decoder == nil || len(p.decoder.Held()) == 0 && p.turnEnds == 0 {
		return
	}
	held := p.decoder.Held()
	for key, end := range h.turnEnds {
		if key.agent != p.id {
			continue
		}
		switch now := held[key.session]; {
		case now == nil || now.Key != end.key:
			p.turnEnds--
			h.drop(key, end)
		case now.At.After(end.at) && time.Since(end.began) < maxLate:
			end.at = now.At
			end.timer.Reset(h.opts.TurnGrace)
		}
	}
	for session, now := range held {
		key := sessionKey{p.id, session}
		if h.turnEnds[key] != nil {
			continue
		}
		p.turnEnds++
		h.turnEnds[key] = &turnEnd{
			key: now.Key, at: now.At, began: time.Now(), done: make(chan struct{}),
			timer: time.AfterFunc(h.opts.TurnGrace, panics.Guard(h.opts.Logger, "ending a turn", func() { p.endTurn(session, now.Key) })),
		}
	}
}

// drop ends the wait for a turn's late updates. stateMu is held.
func (h *Hub) drop(key sessionKey, end *turnEnd) {
	end.timer.Stop()
	close(end.done)
	delete(h.turnEnds, key)
}

// endTurn records a frame about the end of a turn after a session was quiet, so that the record has the turn's end at
// the same position as the live events.
func (p *port) endTurn(session, key string) {
	p.Frame(frame.Frame{
		Direction: frame.OursToClient, Method: []byte(frame.MethodTurnEnded), SessionID: []byte(session),
		Line: event.AppendTurnEnded(nil, session, key),
	})
}

// endsTurn reports whether a frame is one of endTurn. It is queued even without room: the end of a turn must not be
// lost.
func endsTurn(f *frame.Frame) bool {
	return f.Direction == frame.OursToClient && string(f.Method) == frame.MethodTurnEnded
}
