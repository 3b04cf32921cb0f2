package link

import (
	"context"
	"net/netip"
	"slices"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/services/supervisor/internal/egress"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// Egress says how the agent's proxy decides.
type Egress struct {
	// Observe: nothing is refused, but what the proxy itself refuses.
	Observe bool
	// Listens, if set, reports whether only the agent's own processes listen at a TCP port of this machine.
	Listens func(port uint16) bool
	// Needs are the machines without which the agent does not work.
	Needs []hosts.Pattern
}

// Reaches decides whether the agent's proxy connects to a machine, at door three; it is an egress.Decider. A process that asks the
// proxy is not known, so what an allowed command connects to is decided on like all else. An allowance is recorded once the addresses
// are known: before that nothing has been connected to.
func (l *Link) Reaches(ctx context.Context, to egress.Target) egress.Decision {
	if loopback(to) && l.opts.Egress.Listens != nil && l.opts.Egress.Listens(to.Port) {
		return egress.Decision{Verdict: egress.Allow, Special: true} // the agent connects to itself
	}
	e := &kernelEvent{sessions: l.concerned(), to: &hosts.Endpoint{Host: to.Host, Port: to.Port, Addresses: to.Addresses}}
	o, err := l.strictest(ctx, e)
	if err != nil {
		return egress.Decision{Reason: "acphost could not decide: " + err.Error()}
	}
	turns := l.turnsOf(e.sessions)
	if l.opts.Egress.Observe {
		if len(to.Addresses) > 0 || o.d.Verdict == gate.Deny {
			l.observed(e, o, turns)
		}
		return egress.Decision{Verdict: egress.Allow, Special: true}
	}
	switch o.d.Verdict {
	case gate.Allow:
		if len(to.Addresses) > 0 {
			if err := l.opts.Gate.RecordAllowed(o.d, ""); err != nil {
				return egress.Decision{Reason: question.Unrecorded}
			}
		}
		return egress.Decision{Verdict: egress.Allow, Special: o.d.Special()}
	case gate.Ask:
		if _, asked := l.asksLater(e, o); asked {
			return egress.Decision{Verdict: egress.Ask, Reason: o.d.Why()}
		}
	default:
		l.denies(o, "", turns)
	}
	return egress.Decision{Reason: o.d.Why()}
}

// loopback reports whether a target is this machine alone, by its loopback interface: by name, before that is looked up, or by all
// of its addresses.
func loopback(to egress.Target) bool {
	if len(to.Addresses) == 0 {
		return to.Host.Name == "localhost"
	}
	return !slices.ContainsFunc(to.Addresses, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}
