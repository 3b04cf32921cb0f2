package containment

import (
	"context"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	"github.com/acphost/acphost/internal/secretfile"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

var _ decisions.Judge = (*Decider)(nil)

// Judge implements decisions.Judge. It decides about an action of one of the agent's processes. It waits for Bind, and
// then takes no longer than a policy may.
func (d *Decider) Judge(ctx context.Context, asked decisions.Asked) decisions.Answer {
	select {
	case <-d.bound:
		return d.judge(ctx, &event{Asked: asked, sessions: d.concerned()})
	case <-ctx.Done():
		return decisions.Answer{Why: reason.AgentEnded.String()}
	}
}

func (d *Decider) judge(ctx context.Context, e *event) decisions.Answer {
	if sandbox.OpensDevice(e.Event) {
		return decisions.Answer{Allowed: true}
	}
	d.classify(e)
	if e.Operation == sandbox.Read && d.sandbox.Mine.Keeps(e.Path, false) {
		return decisions.Answer{Allowed: true} // the agent's own files, also those with its keys
	}
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
	if e.below, err = d.renames.movedNames(bounded, e.Asked); err != nil && !d.observes() {
		return decisions.Answer{Why: reason.Undecided.With(err)}
	}
	o, err := d.strictest(bounded, e)
	if err != nil {
		return decisions.Answer{Why: reason.Undecided.With(err)}
	}
	if d.observes() {
		d.observed(e, o, turns)
		return decisions.Answer{Allowed: true}
	}
	if o.Staged {
		return decisions.Answer{Staged: true}
	}
	switch o.Decision.Verdict {
	case gate.Allow:
		if reads := d.readLease(e, o); reads != nil {
			return decisions.Answer{Allowed: true, Reads: reads}
		}
		if err := d.opts.Gate.RecordAllowed(o.Decision, e.Program); err != nil {
			return decisions.Answer{Why: question.Unrecorded}
		}
		d.noteChange(e, o)
		return decisions.Answer{Allowed: true, TellStart: e.enterCommand(d, o), Lease: d.lease(e, o)}
	case gate.Ask:
		if e.Leaves == sandbox.LeavesLinked {
			return decisions.Answer{Why: d.refuseLink(o, turns)}
		}
		why, _ := d.askLater(e, o)
		return decisions.Answer{Why: why}
	}
	return decisions.Answer{Why: d.deny(o, "", turns)}
}

// classify determines which processes and files of an event are the agent's own, and whether an allowed command
// contains the process.
func (d *Decider) classify(e *event) {
	if e.command != nil {
		e.line = e.command.line
	}
	if e.line == nil {
		e.line = d.commands.Of(e.PID)
	}
	e.covered = e.coveredBy(e.line, e.Operation, e.Path)
	// A link in the place of one of the agent's own folders would make another folder the agent's own at the next
	// start.
	e.kept = changes(e.Operation) && d.sandbox.Mine.Keeps(e.Path, e.Operation == sandbox.Move || e.Leaves == sandbox.LeavesLink)
}

// concerned returns the sessions that an action of a process may belong to: those with a turn in progress, or all open
// sessions if there is no turn. The session with the newest turn is the first, or else the session that was opened
// last. If an action may belong to several sessions, the question is asked in the first, because an older turn may hang
// and no client may follow it any more.
func (d *Decider) concerned() []string {
	if sessions := d.opts.Sessions.Prompting(); len(sessions) > 0 {
		return sessions
	}
	sessions := d.opts.Sessions.Open()
	slices.Reverse(sessions)
	return sessions
}

// Refused implements decisions.Judge. It records a refusal, once a turn, for each session that the process may belong
// to, and notifies the user.
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
	said := "the sandbox refused a call of a process"
	if d.observes() {
		said = "the sandbox could not follow what a process does: from here on what the agent itself reports in this turn is recorded, too"
	}
	if !d.observes() || d.turn.firstDenial(turns, said) {
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
			d.deny(o, gate.ByAcphost, turns)
			continue
		}
		d.turn.lose(id, d.turnsOf([]string{id}))
		if d.turn.firstDenial(turns, o.Decision.Denial()) {
			d.opts.Gate.ReportDone(o.Decision)
		}
	}
}

// turnsOf returns a key of the current turns of sessions.
func (d *Decider) turnsOf(sessions []string) string {
	var b strings.Builder
	for _, id := range sessions {
		scope, turn := d.opts.Sessions.Turn(id)
		fmt.Fprintf(&b, "%s %d ", scope, turn)
	}
	return b.String()
}

// strictest decides an event in each session that it may belong to, because a process does not identify its session. It
// returns the strictest decision. If a person allowed exactly this action, that is enough unless another session denies
// it.
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

// isOwn reports whether a path is one of the agent's files (Sandbox.Own) or below one.
func (d *Decider) isOwn(path string) bool {
	return d.sandbox != nil && slices.ContainsFunc(d.sandbox.Own, func(own string) bool { return path != "" && paths.Below(own, path) })
}

// isKept reports whether a file, by any name, is the agent's own or holds its state.
func (d *Decider) isKept(file string, seen *paths.Cache) bool {
	return filepath.IsAbs(file) && (d.isOwn(seen.Real(file)) || d.sandbox.Mine.Keeps(seen.Real(file), false))
}

// decideInSession asks the gate about an event in a session.
//
// A program whose arguments acphost has changed is decided by its original arguments, because the new ones name the
// files that it leaves out. It starts if the original arguments are allowed.
func (d *Decider) decideInSession(ctx context.Context, e *event, sessionID string) (Try, error) {
	if original := e.command.original(e.Args); original != nil && e.Operation == sandbox.Execute && !e.Cut {
		as := *e
		as.Args = original
		t, err := d.decideEvent(ctx, &as, sessionID, original)
		if err == nil && t.Decision.Verdict == gate.Allow {
			e.seen = as.seen
			return t, nil
		}
	}
	return d.decideEvent(ctx, e, sessionID, nil)
}

// decideEvent implements decideInSession. argv are the arguments of a program that the gate may change; nil: it may
// change none.
func (d *Decider) decideEvent(ctx context.Context, e *event, sessionID string, argv []string) (Try, error) {
	cc, err := d.opts.Sessions.Context(sessionID)
	if err != nil {
		cc = &acpv1.CallContext{Agent: d.opts.AgentName}
	}
	if e.seen == nil {
		e.seen = paths.NewCache()
	}
	if changes(e.Operation) || e.Operation == sandbox.Read {
		e.seen.NoFollow(e.Path) // the sandbox has followed links: a link that is left is itself changed
	}
	s := d.link.Judging(ctx, sessionID, cc, e.seen)
	s.Walls = d.sandbox.walls()
	var a, inner *permissionv1.Action
	switch {
	case e.to != nil:
		a = intent.Reached(s, *e.to)
	case e.Operation == sandbox.Execute:
		a, inner = d.startAction(e, s)
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
	var git gitMeaning
	switch {
	case !changes(e.Operation) || e.to != nil:
	case e.movesAlong:
		git.state = true
	default:
		git = d.gitMeaningOf(e)
	}
	// What git runs is decided in the agent's own folders, too: a file ".git" or a rename leads a person's git from
	// anywhere to there.
	own := (e.kept || d.isOwn(e.Path)) && !git.runs
	// A link gives another name to the folder that it leads to.
	leads := e.to == nil && changes(e.Operation) && e.Leaves == sandbox.LeavesLink
	for _, p := range a.GetPaths() {
		p.Recursive = p.GetRecursive() || leads && a.GetCommand() == nil
		if (e.covered || own && e.kept || git.state) && a.GetCommand() == nil {
			p.GitInternal = false // an allowed git works there, or the agent keeps a repository of its own, or nothing runs because of it
		}
		if p.GetPath() == e.Path {
			p.GitState, p.GitInternal = git.state, p.GetGitInternal() || git.runs && !e.covered
		}
		if p.GetResolvedPath() == "" && p.GetPath() == e.Path {
			p.ResolvedPath = e.Path // the sandbox has resolved the path, even before a session is open
			p.Public = secretfile.File(e.Path, false) == secretfile.Public
		}
		if p.GetPath() == e.Path && e.Inspected { // the file that the process gets
			p.Public = e.Public
		}
	}
	r := d.link.Request(sessionID, a, e.seen)
	// The agent starts programs before the first session is open.
	r.Covered = e.covered || own || e.Operation == sandbox.Execute && len(e.sessions) == 0
	r.InCommand = e.line != nil && insideRoots(a)
	r.Covered = r.Covered || r.InCommand && git.state // an allowed git works there, also if a rule about edits asks
	r.Argv = argv
	r.Inner, r.GivenUp = inner, d.opts.Sessions.GivenUp(sessionID)
	if e.Placed {
		r.Content = fmt.Sprintf("%x", sha256.Sum256(e.Content))
	}
	r.Proxied, r.Machines = e.to != nil, d.proxy.Machines
	if e.connectsOut() {
		r.Closed = d.sandbox.Closed
	}
	decision, err := d.opts.Gate.Decide(ctx, r)
	staged := false
	if err == nil {
		decision, staged, err = d.decideByContent(ctx, e, git, r, decision)
	}
	if err == nil && !staged && changes(e.Operation) && e.to == nil {
		decision, a, err = d.decideSubject(ctx, e, s, r, decision, git.state)
	}
	if err == nil && git.why != "" && decision.Verdict != gate.Allow {
		decision.Reason = strings.TrimSuffix(decision.Reason, ".") + "; " + reason.GitSetting.With(git.why)
	}
	line := a
	if inner.GetCommand() != nil {
		line = inner
	}
	return Try{Decision: decision, Action: a, Line: line, SessionID: sessionID, Scope: r.Scope, Staged: staged}, err
}

// insideRoots reports whether an action changes files in the session's roots alone, and none that git runs.
func insideRoots(a *permissionv1.Action) bool {
	return len(a.GetPaths()) > 0 && !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
		return !p.GetInsideRoots() || p.GetGitInternal()
	})
}

// observed records an action in observe mode, and notifies the user if the action would have been denied.
func (d *Decider) observed(e *event, o Try, turns string) {
	e.enterCommand(d, o) // later actions of the process count as those of the recorded command
	if o.Decision.Verdict != gate.Allow && !d.turn.firstDenial(turns, o.Decision.DenialKey()) {
		return
	}
	d.opts.Gate.ReportDone(o.Decision)
	if o.Decision.Verdict == gate.Deny && o.SessionID != "" {
		d.link.TellReport(o.SessionID, gate.Report{Decision: o.Decision})
	}
}

// Sees returns a function that reports later whether the sandbox observed all process actions in the current turn of a
// session. The function reports false if the agent runs without a sandbox.
func (d *Decider) Sees(sessionID string) func() bool {
	if d.sandbox == nil {
		return func() bool { return false }
	}
	turn := d.turnsOf([]string{sessionID})
	return func() bool { return d.turn.sees(sessionID, turn) }
}
