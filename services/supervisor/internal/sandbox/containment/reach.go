package containment

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/listeners"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/egress"
)

// Reaches decides whether the agent's proxy connects to a machine. It implements egress.Decider. The process that uses
// the proxy is not known, so connections of allowed commands are decided like all others. An allowance is recorded only
// with the last decision, because nothing has connected before.
func (d *Decider) Reaches(ctx context.Context, to egress.Target) egress.Decision {
	select {
	case <-d.bound:
	case <-ctx.Done():
		return egress.Decision{Reason: reason.AgentEnded.String()}
	}
	if loopback(to) {
		if d.listens(to.Port) {
			return egress.Decision{Verdict: egress.Allow, Special: true} // the agent connects to itself
		}
		if listens, err := listeners.Exist(to.Port); err == nil && !listens && !d.proxy.Observe { // the user need not be asked
			return egress.Decision{Reason: reason.PortUnused.String()}
		}
	}
	e := &event{sessions: d.concerned(), to: &hosts.Endpoint{Host: to.Host, Port: to.Port, Addresses: to.Addresses}}
	o, err := d.strictest(ctx, e)
	if err != nil {
		return egress.Decision{Reason: reason.Undecided.With(err)}
	}
	turns := d.turnsOf(e.sessions)
	if d.proxy.Observe {
		if to.Final() || o.Decision.Verdict == gate.Deny {
			d.observed(e, o, turns)
		}
		return egress.Decision{Verdict: egress.Allow, Special: true}
	}
	switch o.Decision.Verdict {
	case gate.Allow:
		if to.Final() {
			if err := d.opts.Gate.RecordAllowed(o.Decision, ""); err != nil {
				return egress.Decision{Reason: question.Unrecorded}
			}
		}
		return egress.Decision{Verdict: egress.Allow, Special: o.Decision.Special()}
	case gate.Ask:
		why := o.Decision.Why() // the end of a question changes the decision
		if _, asked := d.askLater(e, o); asked {
			return egress.Decision{Verdict: egress.Ask, Reason: why}
		}
	default:
		d.deny(o, "", turns)
	}
	return egress.Decision{Reason: o.Decision.Why() + o.Decision.HowToAsk()}
}

// loopback reports whether a target is only this machine's loopback interface: by the name localhost before the
// look-up, or by all of its addresses.
func loopback(to egress.Target) bool {
	if len(to.Addresses) == 0 {
		return to.Host.Name == "localhost"
	}
	return !slices.ContainsFunc(to.Addresses, func(a netip.Addr) bool { return !a.Unmap().IsLoopback() })
}

// listens reports whether only the agent's processes, and the commands of its terminals, listen on a TCP port of this
// machine.
func (d *Decider) listens(port uint16) bool {
	own, err := listeners.Belong(port, d.processRoots()...)
	return own && err == nil
}

// processRoots returns the processes of which all processes of the agent, and of the commands of its terminals, are
// descendants.
func (d *Decider) processRoots() []int {
	roots := d.roots.list()
	if d.opts.AgentPID != nil {
		roots = append(roots, d.opts.AgentPID())
	}
	return roots
}

// sandboxRoots are the processes of the sandboxes in which commands of terminals run. The zero value is ready. It is
// safe for concurrent use.
type sandboxRoots struct {
	mu   sync.Mutex
	pids map[int]*sandboxRoot // by process; guarded by mu
}

type sandboxRoot struct {
	commands int    // commands that run below the process
	session  string // of the last command
	fresh    bool   // takeNew has not returned it
}

// add adds the sandbox of a session's command that the process of a handler has started. The caller calls remove when
// the sandbox has ended. Commands that are not below that process are ignored: a handler on another machine, or in
// another container, numbers its processes differently.
func (r *sandboxRoots) add(handler, command int, session string) (remove func()) {
	root, below := 0, false
	err := proc.Ancestors(command, func(p proc.Process) (bool, error) {
		if below = p.PID == handler; !below {
			root = p.PID // at last the child of the handler: the sandbox
		}
		return below, nil
	})
	if handler <= 0 || err != nil || !below || root == 0 {
		return func() {}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pids == nil {
		r.pids = map[int]*sandboxRoot{}
	}
	if r.pids[root] == nil {
		r.pids[root] = &sandboxRoot{}
	}
	at := r.pids[root]
	at.commands, at.session, at.fresh = at.commands+1, session, true
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if at.commands--; at.commands == 0 {
			delete(r.pids, root)
		}
	}
}

// takeNew returns the processes that were added for a session since the last call.
func (r *sandboxRoots) takeNew(session string) (found []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for pid, at := range r.pids {
		if at.fresh && at.session == session {
			at.fresh = false
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found
}

// list returns the processes.
func (r *sandboxRoots) list() []int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Collect(maps.Keys(r.pids))
}
