package link

import (
	"context"
	"slices"
)

// reviewTitle is the title of the notice about a turn that has ended.
const reviewTitle = "Check after this turn"

// reviewTurn reviews a session's turn, unless another prompt continues it. The message that ends the turn must be
// forwarded afterwards: it is held until the user was notified.
func (p *agentPump) reviewTurn(sessionID string) {
	if p.opts.Containment == nil || slices.Contains(p.opts.Sessions.Prompting(), sessionID) {
		return
	}
	review := p.opts.Containment.EndTurn(sessionID)
	if review == nil || p.out.flush() != nil { // the notice follows earlier messages
		return
	}
	at := p.order.enter(sessionID)
	leave := func() {
		if err := p.order.leave(sessionID, at); err != nil {
			p.end(ClientGone, err)
		}
	}
	ok := p.queue.add(job{waits: true, run: func(ctx context.Context) {
		defer leave()
		select {
		case <-at.turn:
		case <-ctx.Done():
			return
		}
		if text := review(context.WithoutCancel(ctx)); text != "" {
			p.tell(sessionID, reviewTitle, text)
		}
	}})
	if !ok {
		leave()
	}
}
