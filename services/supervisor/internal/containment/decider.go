package containment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

var _ decisions.Judge = (*Decider)(nil)

// Judge implements decisions.Judge: it decides about what a process of the agent's is about to do. It takes no longer than a
// policy may, but waits for the link.
func (d *Decider) Judge(ctx context.Context, asked decisions.Asked) decisions.Answer {
	select {
	case <-d.bound:
		return d.judge(ctx, &event{Asked: asked, sessions: d.concerned()})
	case <-ctx.Done():
		return decisions.Answer{Why: "the agent is over"}
	}
}

func (d *Decider) judge(ctx context.Context, e *event) decisions.Answer {
	if changes(e.Operation) && sandbox.Device(e.Path) {
		return decisions.Answer{Allowed: true}
	}
	d.place(e)
	if e.MountPoint {
		return decisions.Answer{Allowed: d.mountPoint(ctx, e)}
	}
	turns := d.turnsOf(e.sessions)
	bounded := ctx
	if e.Operation == sandbox.Move {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, moveTime)
		defer cancel()
	}
	var err error
	if e.below, err = moving(bounded, e.Asked); err != nil && !d.observes() {
		return decisions.Answer{Why: "acphost could not decide: " + err.Error()}
	}
	o, err := d.strictest(bounded, e)
	if err != nil {
		return decisions.Answer{Why: "acphost could not decide: " + err.Error()}
	}
	if e.Apart && o.Decision.Verdict == gate.Allow && !o.Decision.Tried() {
		e.wrapped = true // a rule knows the program by its path, and not what it finds there
	}
	if d.observes() {
		d.observed(e, o, turns)
		return decisions.Answer{Allowed: true}
	}
	switch o.Decision.Verdict {
	case gate.Allow:
		if err := d.opts.Gate.RecordAllowed(o.Decision, e.Program); err != nil {
			return decisions.Answer{Why: question.Unrecorded}
		}
		return decisions.Answer{Allowed: true, TellStart: e.entered(d), Lease: d.lease(e, o)}
	case gate.Ask:
		why, _ := d.asksLater(e, o)
		return decisions.Answer{Why: why}
	}
	return decisions.Answer{Why: d.denies(o, "", turns)}
}

// place finds out what the agent's own is in an event, and what is allowed already.
func (d *Decider) place(e *event) {
	e.within = e.command != nil || d.commands.Within(e.PID)
	e.kept = changes(e.Operation) && d.sandbox.Mine.Keeps(e.Path, e.Operation == sandbox.Move)
	e.asAgent = !e.within && e.Operation == sandbox.Execute && d.sandbox.Mine.Runs(e.Path, e.Args)
	e.lenient = e.within || e.kept || e.asAgent ||
		e.Operation == sandbox.Read || e.Operation == sandbox.Connect || d.isOwn(e.Path) ||
		e.Operation == sandbox.Execute && len(e.sessions) == 0 // what the agent starts before anybody has said anything to it
}

// concerned returns the sessions to which an action of a process may belong: those in which a turn is under way, or all open sessions if
// there is no turn. The session of the newest turn is the first, or else the session that was opened last. If an action may belong to
// several sessions, the question is asked in the first: an older turn may hang, and no client may follow it any more.
func (d *Decider) concerned() []string {
	if sessions := d.opts.Sessions.Prompting(); len(sessions) > 0 {
		return sessions
	}
	sessions := d.opts.Sessions.Open()
	slices.Reverse(sessions)
	return sessions
}

// Refused implements decisions.Judge. It records what was refused, for each session that the process may belong to: the first time in
// a turn. The user is told.
func (d *Decider) Refused(pid int, program, what string) {
	tell := func() { d.refusedIn(d.concerned(), pid, program, what) }
	d.mu.Lock()
	late := d.link == nil
	if late && len(d.waiting) < maxWaiting {
		d.waiting = append(d.waiting, tell)
	}
	d.mu.Unlock()
	if !late {
		tell()
	}
}

func (d *Decider) refusedIn(sessions []string, pid int, program, what string) {
	turns := d.turnsOf(sessions)
	said := "the sandbox refused what acphost could not follow"
	if d.observes() {
		said = "the sandbox could not follow what a process does: from here on what the agent itself reports in this turn is recorded, too"
	}
	if !d.observes() || d.turn.first(turns, said) {
		d.opts.Logger.Warn(said, "agent", d.opts.AgentName, "pid", pid, "what", what, "program", program)
	}
	if len(sessions) == 0 {
		sessions = []string{""}
	}
	for _, id := range sessions {
		cc, err := d.opts.Sessions.Context(id)
		if err != nil {
			cc = &acpv1.CallContext{Agent: d.opts.AgentName}
		}
		a := intent.Refused(d.link.Judging(context.Background(), id, cc, nil), what)
		r := d.link.Request(id, a, nil)
		o := Try{Decision: d.opts.Gate.RefusedBySandbox(r), Action: a, SessionID: id, Scope: r.Scope}
		if !d.observes() {
			d.denies(o, gate.ByAcphost, turns)
			continue
		}
		d.turn.lose(id, d.turnsOf([]string{id}))
		if d.turn.first(turns, o.Decision.Denial()) {
			d.opts.Gate.ReportDone(o.Decision)
		}
	}
}

// turnsOf names the turns that are under way in sessions.
func (d *Decider) turnsOf(sessions []string) string {
	var b strings.Builder
	for _, id := range sessions {
		scope, turn := d.opts.Sessions.Turn(id)
		fmt.Fprintf(&b, "%s %d ", scope, turn)
	}
	return b.String()
}

// strictest decides an event in each session that it may belong to: nothing says of a process to which it does. What a person has
// allowed, about just this, is enough unless another session denies it.
func (d *Decider) strictest(ctx context.Context, e *event) (worst Try, err error) {
	sessions := e.sessions
	if len(sessions) == 0 {
		sessions = []string{""}
	}
	rank := func(o Try) int {
		switch {
		case o.Decision.Verdict == gate.Deny:
			return 3
		case o.Decision.Settled():
			return 2
		case o.Decision.Verdict == gate.Ask:
			return 1
		}
		return 0
	}
	for _, id := range sessions {
		o, err := d.decideMoved(ctx, e, id)
		if err != nil {
			return o, err
		}
		if worst.Decision == nil || rank(o) > rank(worst) {
			worst = o
		}
		if o.Decision.Verdict == gate.Deny {
			break
		}
	}
	return worst, nil
}

// isOwn reports whether a path is the agent's own.
func (d *Decider) isOwn(path string) bool {
	return slices.ContainsFunc(d.sandbox.Own, func(own string) bool { return path != "" && paths.Below(own, path) })
}

// isKept reports whether the agent keeps something in a file of its own, by any name.
func (d *Decider) isKept(file string, seen *paths.Seen) bool {
	return filepath.IsAbs(file) && (d.isOwn(seen.Real(file)) || d.sandbox.Mine.Keeps(seen.Real(file), false))
}

// decideKernel has the gate decide an event in a session. A program that gets a PATH with folders of the agent's own
// is decided on without them where that lends nothing to what the agent puts there: the program only looks, or is
// started as the agent anyway. What it finds by PATH is decided when it starts.
func (d *Decider) decideKernel(ctx context.Context, e *event, sessionID string) (Try, error) {
	if e.Operation != sandbox.Execute || e.within || !d.findsOwn(e) {
		return d.decideWith(ctx, e, sessionID, false)
	}
	was := *e
	o, err := d.decideWith(ctx, e, sessionID, true)
	if err == nil && o.Decision.Verdict == gate.Allow && !o.Decision.Tried() && (e.lenient || e.Apart || onlyLooks(o.Action)) {
		e.wrapped = true
		return o, nil
	}
	*e = was
	return d.decideWith(ctx, e, sessionID, false)
}

// decideWith is decideKernel. ownPath: folders of the agent's own in PATH do not count.
func (d *Decider) decideWith(ctx context.Context, e *event, sessionID string, ownPath bool) (Try, error) {
	cc, err := d.opts.Sessions.Context(sessionID)
	if err != nil {
		cc = &acpv1.CallContext{Agent: d.opts.AgentName}
	}
	if e.seen == nil {
		e.seen = paths.NewSeen()
	}
	s := d.link.Judging(ctx, sessionID, cc, e.seen)
	var a, inner *permissionv1.Action
	switch {
	case e.to != nil:
		a = intent.Reached(s, *e.to)
	case e.Operation == sandbox.Execute:
		a, inner = d.starting(ctx, e, s, ownPath)
	case e.Operation == sandbox.Read:
		a = intent.ChangedFile(s, e.Path, permissionv1.Access_ACCESS_READ)
	case e.Operation == sandbox.Connect:
		a = intent.Connected(s, e.Address.Network, e.Address.Host, e.Address.Port, e.Path)
	default:
		a = intent.ChangedFile(s, e.Path, permissionv1.Access_ACCESS_WRITE)
		inner = intent.Replaced(s, e.Path)
	}
	if e.to == nil {
		a.Title = "by " + strings.ToValidUTF8(e.Program, "\uFFFD")
	}
	for _, p := range a.GetPaths() {
		if (e.within || e.kept) && a.GetCommand() == nil {
			p.GitInternal = false // a git that was allowed works there, or the agent keeps a repository of its own
		}
		if p.GetResolvedPath() == "" && p.GetPath() == e.Path {
			p.ResolvedPath = e.Path // the sandbox has followed it, before a session is open too
		}
	}
	r := d.link.Request(sessionID, a, e.seen)
	r.Lenient, r.Inner, r.GivenUp, r.Apart = e.lenient, inner, d.opts.Sessions.GivenUp(sessionID), e.Apart
	r.Proxied, r.Needs = e.to != nil, d.proxy.Needs
	if e.leadsOut() {
		r.Closed = d.sandbox.Closed
	}
	decision, err := d.opts.Gate.Decide(ctx, r)
	if err == nil && decision.Verdict == gate.Ask && inner.GetCommand() != nil {
		of := d.link.Request(sessionID, inner, e.seen)
		of.GivenUp, of.Apart = r.GivenUp, e.Apart
		if by, err := d.opts.Gate.Decide(ctx, of); err == nil && by.Verdict == gate.Allow {
			e.wrapped, decision, a = true, by, inner
		}
	}
	return Try{decision, a, sessionID, r.Scope, e.Apart}, err
}

// observed records what would not have been allowed.
func (d *Decider) observed(e *event, o Try, turns string) {
	e.entered(d) // what it does then is the doing of the command that was recorded
	if o.Decision.Verdict != gate.Allow && !d.turn.first(turns, o.Decision.DenialKey()) {
		return
	}
	d.opts.Gate.ReportDone(o.Decision)
	if o.Decision.Verdict == gate.Deny && o.SessionID != "" {
		d.link.TellReport(o.SessionID, gate.Report{Decision: o.Decision})
	}
}

// Sees returns what reports later whether all was seen that processes did in the present turn of a session. It reports false if the agent
// runs in no sandbox.
func (d *Decider) Sees(sessionID string) func() bool {
	if d.sandbox == nil {
		return func() bool { return false }
	}
	turn := d.turnsOf([]string{sessionID})
	return func() bool { return d.turn.sees(sessionID, turn) }
}
