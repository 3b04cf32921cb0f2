package gate

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/policy/secret"
)

// Report is the result of Reported.
type Report struct {
	// Decision is the policy's decision about the action. Nil: there is nothing to report.
	*Decision
	// Violation: the action was refused before, and the agent reports that it performed it anyway.
	Violation bool
}

// Reported checks a tool call that has ended against the decisions about permission requests and calls. If there is no decision about the
// action, Reported decides now. That prevents nothing, but the result can be shown to the user. Each tool call is checked once, unless the
// agent reports another action with its id, because agents may reuse ids.
//
// A read without a permission request is reported only if a rule denies it. Many agents read files themselves without asking, and some
// report a refused read as completed.
func (g *Gate) Reported(ctx context.Context, r Request, completed bool) (Report, error) {
	reads := false
	switch r.Action.GetKind() {
	case "tool.execute", "tool.edit", "tool.delete", "tool.move":
	case "tool.read":
		reads = true
	default:
		return Report{}, nil
	}
	known, refused, first := g.findDecisions(r, completed)
	if r.Kernel && !reads {
		return Report{}, nil // the process action was decided
	}
	if !completed || !first || known && !refused || reads && refused {
		return Report{}, nil
	}
	r.Action.Done = true
	if refused {
		d := &Decision{request: r, By: ByAcphost, Verdict: Deny, Reason: reason.DoneAnyway.String(), active: true}
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

// findDecisions reports whether there are decisions about everything that a tool call did, whether any of it was refused, and whether its
// end is reported for the first time. It ends the answers that were given for the tool call.
func (g *Gate) findDecisions(r Request, completed bool) (known, refused, first bool) {
	if r.Scope == "" {
		return true, false, false // the session has ended, and its decisions were dropped
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
		if differs(e.action, r.Action) {
			continue // the request was about another action
		}
		known, refused = true, !e.allowed // an agent may ask again; the last answer counts
	}
	for _, left := range l.left { // if no call arrived, nothing was decided
		if left.action.GetToolCallId() == id && left.called {
			known, refused = true, left.refused
		}
	}
	if !completed {
		return known, refused, first
	}
	if r.Action.GetCommand() == nil && slices.ContainsFunc(r.Terminals, func(id string) bool { return l.terminals[id] }) {
		known = true // it does not name its command, but shows the terminal of a decided call
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

// reportKey identifies a tool call by its id and its action.
func reportKey(a *permissionv1.Action) string { return a.GetToolCallId() + "\x00" + actionKey(a) }

// actionKey identifies an action by its content.
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

// differs reports whether the performed action certainly differs from the requested one: another command, or a file that the request did
// not name. If a request does not describe its action, nothing differs from it.
func differs(asked, done *permissionv1.Action) bool {
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
		named[p.GetPath()] = true // a link may have been replaced by a file meanwhile
	}
	for _, p := range done.GetPaths() {
		if p.GetAccess() != permissionv1.Access_ACCESS_READ && !named[intent.PlaceOf(p)] && !named[p.GetPath()] {
			return true
		}
	}
	return false
}

// report records an action that can only be reported.
func (g *Gate) report(d *Decision, outcome string) {
	o := Outcome{By: ByNobody, reported: outcome}
	_ = g.record(d, o, nil) // logWritten logs the error
	if g.opts.Denied != nil && d.Verdict == Deny && outcome == outcomeUnasked {
		g.opts.Denied(g.recordOf(d, o, nil))
	}
	g.opts.Logger.Warn("an agent did what it should have asked for", "what", secret.Text(d.What()), "outcome", outcome,
		"verdict", VerdictName(d.Verdict), "rule", d.Rule, "reason", secret.Text(d.Reason), "session", d.request.Action.GetSessionId())
}
