package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/secret"
)

// Report is what is to be said of an action that an agent reports as done.
type Report struct {
	// Decision is what the policy says of it. Nil: nothing is to be said.
	*Decision
	// Violation: it was refused before, and the agent says that it did it all the same.
	Violation bool
}

// Reported checks a tool call that has ended against the decisions at both doors. An action that nobody has decided about is
// decided about now: this prevents nothing, but the result can be told. Each tool call is checked once, unless the agent
// reports another action under its id: ids may be used again.
//
// A read without a question is told of only if a rule denies it: many agents read files themselves and ask nobody, and some
// report a read that was refused as completed.
func (g *Gate) Reported(ctx context.Context, r Request, completed bool) (Report, error) {
	reads := false
	switch r.Action.GetKind() {
	case "tool.execute", "tool.edit", "tool.delete", "tool.move":
	case "tool.read":
		reads = true
	default:
		return Report{}, nil
	}
	known, refused, first := g.lookBack(r, completed)
	if r.Kernel && !reads {
		return Report{}, nil // it was decided on when it was done
	}
	if !completed || !first || known && !refused || reads && refused {
		return Report{}, nil
	}
	r.Action.Done = true
	if refused {
		d := &Decision{request: r, By: ByAcphost, Verdict: Deny, Reason: "it was refused, and the agent reports it as done", active: true}
		g.tally(func(c *supervisorv1.GateCounters) { c.NotPrevented++ })
		g.report(d, "refused, not prevented")
		return Report{Decision: d, Violation: true}, nil
	}
	d, err := g.Decide(ctx, r)
	switch {
	case err != nil:
		return Report{}, err
	case reads && (d.Verdict != Deny || d.Rule == ""):
		return Report{}, nil
	case d.Verdict == Allow:
		g.tally(func(c *supervisorv1.GateCounters) { c.Unasked["allow"]++ })
		return Report{}, nil
	}
	g.tally(func(c *supervisorv1.GateCounters) { c.Unasked[VerdictName(d.Verdict)]++ })
	g.report(d, outcomeUnasked)
	return Report{Decision: d}, nil
}

// lookBack reports whether something was decided about all that a tool call did, whether any of it was refused, and whether
// its end is seen for the first time. The answers given for the tool call end with it.
func (g *Gate) lookBack(r Request, completed bool) (known, refused, first bool) {
	if r.Scope == "" {
		return true, false, false // its session is over: nothing is kept of it
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := r.ledger
	if l == nil {
		l = g.ledger(r)
	}
	id := r.Action.GetToolCallId()
	key := reportKey(r.Action)
	first = !l.reported[key]
	if len(l.reported) < maxAnswers {
		l.reported[key] = true
	}
	for _, e := range l.asked {
		if e.action.GetToolCallId() != id {
			continue
		}
		e.over = true
		if elsewhere(e.action, r.Action) {
			continue // it asked about one thing and did another
		}
		known, refused = true, !e.allowed // it may ask again, and the last answer counts
	}
	for _, left := range l.left { // if no call came, nothing was decided
		if left.toolCall == id && left.called {
			known, refused = true, left.refused
		}
	}
	if !completed {
		return known, refused, first
	}
	if r.Action.GetCommand() == nil && slices.ContainsFunc(r.Terminals, func(id string) bool { return l.terminals[id] }) {
		known = true // it does not say what it ran, and shows the terminal in which that was decided about
	}
	covered := map[string]bool{}
	for _, c := range l.calls {
		if !intent.Same(r.Action, c.action) {
			continue
		}
		if !c.allowed {
			refused = true
			continue
		}
		if c.action.GetCommand() != nil {
			known, refused = true, false // it may have been refused first and allowed later
		}
		for _, p := range c.action.GetPaths() {
			covered[intent.PlaceOf(p)] = true
		}
	}
	if r.Action.GetCommand() != nil || known {
		return known, refused, first
	}
	missed := func(p *permissionv1.PathAccess) bool { return !covered[intent.PlaceOf(p)] }
	known = len(r.Action.GetPaths()) > 0 && !slices.ContainsFunc(r.Action.GetPaths(), missed)
	return known, refused && !known, first
}

// reportKey tells a tool call from others, by its id and by what it did.
func reportKey(a *permissionv1.Action) string { return a.GetToolCallId() + "\x00" + actionKey(a) }

// actionKey tells an action from others by what it does.
func actionKey(a *permissionv1.Action) string {
	h := sha256.New()
	part := func(text string) { fmt.Fprintf(h, "%d %s", len(text), text) }
	if c := a.GetCommand(); c != nil {
		part(c.GetText())
		part(c.GetCwd())
		for _, word := range c.GetArgv() {
			part(word)
		}
	} else {
		part(a.GetKind())
		part(machineText(a))
	}
	for _, p := range a.GetPaths() {
		part(intent.PlaceOf(p))
		part(p.GetAccess().String())
	}
	return string(h.Sum(nil))
}

// elsewhere reports whether the action that was done surely differs from the action that was asked about: another command,
// or a file that the question did not name. If a question does not say what it is about, nothing differs from it.
func elsewhere(asked, done *permissionv1.Action) bool {
	a, d := asked.GetCommand(), done.GetCommand()
	switch {
	case a == nil && len(asked.GetPaths()) == 0:
		return false
	case a == nil || d == nil:
		if (a == nil) != (d == nil) {
			return true
		}
	case a.GetText() != d.GetText() || !slices.Equal(a.GetArgv(), d.GetArgv()):
		return true
	default:
		return false // its paths follow from the command
	}
	named := map[string]bool{}
	for _, p := range asked.GetPaths() {
		named[intent.PlaceOf(p)] = true
		named[p.GetPath()] = true // where a link led before it was replaced by a file is not held against anybody
	}
	for _, p := range done.GetPaths() {
		if p.GetAccess() != permissionv1.Access_ACCESS_READ && !named[intent.PlaceOf(p)] && !named[p.GetPath()] {
			return true
		}
	}
	return false
}

// report records what can only be reported.
func (g *Gate) report(d *Decision, outcome string) {
	o := Outcome{By: ByNobody, reported: outcome}
	_ = g.record(d, o, nil) // the log says if it is not recorded
	if g.opts.Denied != nil && d.Verdict == Deny && outcome == outcomeUnasked {
		g.opts.Denied(g.recordOf(d, o, nil))
	}
	g.opts.Logger.Warn("an agent did what it should have asked for", "what", secret.Text(d.What()), "outcome", outcome,
		"verdict", VerdictName(d.Verdict), "rule", d.Rule, "reason", secret.Text(d.Reason), "session", d.request.Action.GetSessionId())
}
