package containment

import (
	"context"
	"net/netip"
	"slices"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/egress"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// Reaches decides whether the agent's proxy connects to a machine. It implements egress.Decider. The process that uses the proxy is not
// known, so connections of allowed commands are decided like all others. An allowance is recorded only once the addresses are known,
// because nothing has connected before.
func (d *Decider) Reaches(ctx context.Context, to egress.Target) egress.Decision {
	select {
	case <-d.bound:
	case <-ctx.Done():
		return egress.Decision{Reason: reason.AgentEnded.String()}
	}
	if loopback(to) && d.proxy.Listens != nil && d.proxy.Listens(to.Port) {
		return egress.Decision{Verdict: egress.Allow, Special: true} // the agent connects to itself
	}
	e := &event{sessions: d.concerned(), to: &hosts.Endpoint{Host: to.Host, Port: to.Port, Addresses: to.Addresses}}
	o, err := d.strictest(ctx, e)
	if err != nil {
		return egress.Decision{Reason: reason.Undecided.With(err)}
	}
	turns := d.turnsOf(e.sessions)
	if d.proxy.Observe {
		if len(to.Addresses) > 0 || o.Decision.Verdict == gate.Deny {
			d.observed(e, o, turns)
		}
		return egress.Decision{Verdict: egress.Allow, Special: true}
	}
	switch o.Decision.Verdict {
	case gate.Allow:
		if len(to.Addresses) > 0 {
			if err := d.opts.Gate.RecordAllowed(o.Decision, ""); err != nil {
				return egress.Decision{Reason: question.Unrecorded}
			}
		}
		return egress.Decision{Verdict: egress.Allow, Special: o.Decision.Special()}
	case gate.Ask:
		if _, asked := d.askLater(e, o); asked {
			return egress.Decision{Verdict: egress.Ask, Reason: o.Decision.Why()}
		}
	default:
		d.deny(o, "", turns)
	}
	return egress.Decision{Reason: o.Decision.Why() + o.Decision.HowToAsk()}
}

// loopback reports whether a target is only this machine's loopback interface: by the name localhost before the look-up, or by all of its
// addresses.
func loopback(to egress.Target) bool {
	if len(to.Addresses) == 0 {
		return to.Host.Name == "localhost"
	}
	return !slices.ContainsFunc(to.Addresses, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}
