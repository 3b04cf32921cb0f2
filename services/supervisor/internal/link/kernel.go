package link

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/kernel"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Bounds on what an agent's processes can have the user see.
const (
	// maxKernelQuestions is how many questions about what processes have tried wait at once.
	maxKernelQuestions = 16
	// maxKernelNotices is how many denials the user is told of in one turn.
	maxKernelNotices = 20
	// maxKernelDenials is how many denials of one turn are known, so that each has one record. If there are more, those that
	// are repeated may be recorded again.
	maxKernelDenials = 4096
)

// Kernel says how what the agent's processes do by themselves is decided (door three).
type Kernel struct {
	// How is how the sandbox confines.
	How sandbox.Confinement
	// Own are files and folders of the agent's own, absolute and without symbolic links.
	Own []string
	// Mine are files and programs that are known to be the agent's own; nil: none are.
	Mine *kernel.Own
	// Closed says why no process may connect to a machine by itself; empty: it may.
	Closed string
	// Env are variables by which the commands of terminals find the agent's proxy, each "NAME=VALUE".
	Env []string
	// Require: a command does not run if the handler of terminals cannot run it in a sandbox.
	Require bool
}

// kernelDoor is what a Link keeps for door three. The zero value is ready.
type kernelDoor struct {
	commands kernel.Commands

	mu      sync.Mutex
	asking  map[string]bool // what the user is being asked about, by gate.Decision.Key
	turns   string          // the turns that denied is about
	denied  map[string]bool // by gate.Decision.DenialKey
	notices int
	lost    map[string]string // by session, the turn in which the sandbox could not tell what a process does
}

var _ decisions.Judge = (*Link)(nil)

// Judge implements decisions.Judge: it decides about what a process of the agent's is about to do. It takes no longer than a
// policy may, and waits for no person: if the user has to be asked, the action is refused, the user is asked meanwhile, and the
// answer counts for the next try.
func (l *Link) Judge(ctx context.Context, asked decisions.Asked) decisions.Answer {
	return l.judgeEvent(ctx, &kernelEvent{Asked: asked, sessions: l.concerned()})
}

func (l *Link) judgeEvent(ctx context.Context, e *kernelEvent) decisions.Answer {
	if changes(e.Operation) && sandbox.Device(e.Path) {
		return decisions.Answer{Allowed: true}
	}
	l.place(e)
	if e.MountPoint {
		return decisions.Answer{Allowed: l.mountPoint(ctx, e)}
	}
	turns := l.turnsOf(e.sessions)
	bounded := ctx
	if e.Operation == sandbox.Move {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, moveTime)
		defer cancel()
	}
	var err error
	if e.below, err = moving(bounded, e.Asked); err != nil && !l.opts.Kernel.How.Observe {
		return decisions.Answer{Why: "acphost could not decide: " + err.Error()}
	}
	o, err := l.strictest(bounded, e)
	if err != nil {
		return decisions.Answer{Why: "acphost could not decide: " + err.Error()}
	}
	if e.Apart && o.d.Verdict == gate.Allow && !o.d.Tried() {
		e.wrapped = true // a rule knows the program by its path, and not what it finds there
	}
	if l.opts.Kernel.How.Observe {
		l.observed(e, o, turns)
		return decisions.Answer{Allowed: true}
	}
	switch o.d.Verdict {
	case gate.Allow:
		if err := l.opts.Gate.RecordAllowed(o.d, e.Program); err != nil {
			return decisions.Answer{Why: question.Unrecorded}
		}
		return decisions.Answer{Allowed: true, TellStart: e.entered(l), Lease: l.lease(e, o)}
	case gate.Ask:
		why, _ := l.asksLater(e, o)
		return decisions.Answer{Why: why}
	}
	return decisions.Answer{Why: l.denies(o, "", turns)}
}

// place finds out what the agent's own is in an event, and what is allowed already.
func (l *Link) place(e *kernelEvent) {
	e.within = e.command != nil || l.kernel.commands.Within(e.PID)
	e.kept = changes(e.Operation) && l.opts.Kernel.Mine.Keeps(e.Path, e.Operation == sandbox.Move)
	e.asAgent = !e.within && e.Operation == sandbox.Execute && l.opts.Kernel.Mine.Runs(e.Path, e.Args)
	e.lenient = e.within || e.kept || e.asAgent ||
		e.Operation == sandbox.Read || e.Operation == sandbox.Connect || l.isOwn(e.Path) ||
		e.Operation == sandbox.Execute && len(e.sessions) == 0 // what the agent starts before anybody has said anything to it
}

// concerned returns the sessions to which an action of a process may belong: those in which a turn is under way, or all open sessions if
// there is no turn. The session of the newest turn is the first, or else the session that was opened last. If an action may belong to
// several sessions, the question is asked in the first: an older turn may hang, and no client may follow it any more.
func (l *Link) concerned() []string {
	if sessions := l.opts.Sessions.Prompting(); len(sessions) > 0 {
		return sessions
	}
	sessions := l.opts.Sessions.Open()
	slices.Reverse(sessions)
	return sessions
}

// Refused implements decisions.Judge. It records what was refused, for each session that the process may belong to: the first time in
// a turn. The user is told.
func (l *Link) Refused(pid int, program, what string) { l.refusedIn(l.concerned(), pid, program, what) }

func (l *Link) refusedIn(sessions []string, pid int, program, what string) {
	turns := l.turnsOf(sessions)
	said := "the sandbox refused what acphost could not follow"
	if l.opts.Kernel.How.Observe {
		said = "the sandbox could not follow what a process does: from here on what the agent itself reports in this turn is recorded, too"
	}
	if !l.opts.Kernel.How.Observe || l.kernel.first(turns, said) {
		l.log.Warn(said, "agent", l.opts.AgentName, "pid", pid, "what", what, "program", program)
	}
	if len(sessions) == 0 {
		sessions = []string{""}
	}
	for _, id := range sessions {
		cc, err := l.opts.Sessions.Context(id)
		if err != nil {
			cc = &acpv1.CallContext{Agent: l.opts.AgentName}
		}
		a := intent.Refused(l.judging(context.Background(), id, cc, nil), what)
		r := l.decisionRequest(id, a, nil)
		o := kernelOutcome{d: l.opts.Gate.RefusedBySandbox(r), action: a, sessionID: id, scope: r.Scope}
		if !l.opts.Kernel.How.Observe {
			l.denies(o, gate.ByAcphost, turns)
			continue
		}
		l.kernel.lose(id, l.turnsOf([]string{id}))
		if l.kernel.first(turns, o.d.Denial()) {
			l.opts.Gate.ReportDone(o.d)
		}
	}
}

// lose notes that what a process does in a turn of a session was not seen.
func (k *kernelDoor) lose(session, turn string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lost == nil || len(k.lost) >= maxKernelDenials {
		k.lost = map[string]string{}
	}
	k.lost[session] = turn
}

// sees reports whether all was seen that processes have done in a turn of a session, which is the newest one.
func (k *kernelDoor) sees(session, turn string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lost[session] != turn
}

// kernelEvent is one thing that a process is about to do.
type kernelEvent struct {
	decisions.Asked
	// within: the process belongs to a command that was allowed.
	within bool
	// lenient: only what is denied is refused.
	lenient bool
	// asAgent: it starts a part of the agent, or a program that the agent is known to start for itself.
	asAgent bool
	// kept: it changes a file in which the agent keeps what it remembers.
	kept bool
	// below are the names by which all is reached that lies in a folder that gets another name.
	below    []string
	sessions []string
	// command is that of a terminal, which was allowed, and to which the process belongs; nil: the process is of the
	// agent's own.
	command *confinedCommand
	// wrapped: a shell is started with words of the agent's around a line that is allowed, or a program where the agent
	// may have mounted what it finds, or a script by a name that the agent can have lead to another one. It stays the
	// agent, so that what it starts and changes is decided.
	wrapped bool
	// seen is what has been seen of the disk for this question.
	seen *paths.Seen
	// to is the machine to which acphost's proxy is to connect; nil: a process does something itself.
	to *hosts.Endpoint
}

// leadsOut reports whether a process connects to a machine by itself, or to a service of this one that looks names up: a look-up tells
// others the name.
func (e *kernelEvent) leadsOut() bool {
	return e.to == nil && e.Operation == sandbox.Connect && (e.Address.Internet() || slices.Contains(nameServices, e.Path))
}

// nameServices are the sockets by which libraries have names looked up: systemd-resolved's, nscd's (of several systems) and Avahi's.
var nameServices = []string{
	"/run/systemd/resolve/io.systemd.Resolve", "/run/systemd/resolve.hook/io.systemd.Resolve",
	"/run/nscd/socket", "/var/run/nscd/socket", "/var/db/nscd/socket", "/run/avahi-daemon/socket",
}

func changes(op sandbox.Operation) bool { return op == sandbox.Write || op == sandbox.Move }

// entered notes that the process becomes that of a command, once its program is in place. It reports whether that has
// to be told.
func (e *kernelEvent) entered(l *Link) (tell bool) {
	switch {
	case e.Operation != sandbox.Execute || e.within || e.lenient || e.wrapped:
		return false
	case l.opts.Kernel.How.Observe: // nobody says when
		l.kernel.commands.Add(e.PID)
		return false
	default:
		l.kernel.commands.Expect(e.PID, e.Call)
		return true
	}
}

// Started implements decisions.Judge.
func (l *Link) Started(pid int, call uint64) { l.kernel.commands.Started(pid, call) }

// turnsOf names the turns that are under way in sessions.
func (l *Link) turnsOf(sessions []string) string {
	var b strings.Builder
	for _, id := range sessions {
		scope, turn := l.opts.Sessions.Turn(id)
		fmt.Fprintf(&b, "%s %d ", scope, turn)
	}
	return b.String()
}

// kernelOutcome is what was decided in one session.
type kernelOutcome struct {
	d         *gate.Decision
	action    *permissionv1.Action
	sessionID string
	scope     string
	apart     bool // the program finds what the agent may have mounted there
}

// strictest decides an event in each session that it may belong to: nothing says of a process to which it does. What a person has
// allowed, about just this, is enough unless another session denies it.
func (l *Link) strictest(ctx context.Context, e *kernelEvent) (worst kernelOutcome, err error) {
	sessions := e.sessions
	if len(sessions) == 0 {
		sessions = []string{""}
	}
	rank := func(o kernelOutcome) int {
		switch {
		case o.d.Verdict == gate.Deny:
			return 3
		case o.d.Settled():
			return 2
		case o.d.Verdict == gate.Ask:
			return 1
		}
		return 0
	}
	for _, id := range sessions {
		o, err := l.decideMoved(ctx, e, id)
		if err != nil {
			return o, err
		}
		if worst.d == nil || rank(o) > rank(worst) {
			worst = o
		}
		if o.d.Verdict == gate.Deny {
			break
		}
	}
	return worst, nil
}

// isOwn reports whether a path is the agent's own.
func (l *Link) isOwn(path string) bool {
	return slices.ContainsFunc(l.opts.Kernel.Own, func(own string) bool { return path != "" && paths.Below(own, path) })
}

// isKept reports whether the agent keeps something in a file of its own, by any name.
func (l *Link) isKept(file string, seen *paths.Seen) bool {
	return filepath.IsAbs(file) && (l.isOwn(seen.Real(file)) || l.opts.Kernel.Mine.Keeps(seen.Real(file), false))
}

// decideKernel has the gate decide an event in a session. A program that gets a PATH with folders of the agent's own
// is decided on without them where that lends nothing to what the agent puts there: the program only looks, or is
// started as the agent anyway. What it finds by PATH is decided when it starts.
func (l *Link) decideKernel(ctx context.Context, e *kernelEvent, sessionID string) (kernelOutcome, error) {
	if e.Operation != sandbox.Execute || e.within || !l.findsOwn(e) {
		return l.decideWith(ctx, e, sessionID, false)
	}
	was := *e
	o, err := l.decideWith(ctx, e, sessionID, true)
	if err == nil && o.d.Verdict == gate.Allow && !o.d.Tried() && (e.lenient || e.Apart || onlyLooks(o.action)) {
		e.wrapped = true
		return o, nil
	}
	*e = was
	return l.decideWith(ctx, e, sessionID, false)
}

// decideWith is decideKernel. ownPath: folders of the agent's own in PATH do not count.
func (l *Link) decideWith(ctx context.Context, e *kernelEvent, sessionID string, ownPath bool) (kernelOutcome, error) {
	cc, err := l.opts.Sessions.Context(sessionID)
	if err != nil {
		cc = &acpv1.CallContext{Agent: l.opts.AgentName}
	}
	if e.seen == nil {
		e.seen = paths.NewSeen()
	}
	s := l.judging(ctx, sessionID, cc, e.seen)
	var a, inner *permissionv1.Action
	switch {
	case e.to != nil:
		a = intent.Reached(s, *e.to)
	case e.Operation == sandbox.Execute:
		a, inner = l.starting(ctx, e, s, ownPath)
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
	r := l.decisionRequest(sessionID, a, e.seen)
	r.Lenient, r.Inner, r.GivenUp, r.Apart = e.lenient, inner, l.opts.Sessions.GivenUp(sessionID), e.Apart
	r.Proxied, r.Needs = e.to != nil, l.opts.Egress.Needs
	if e.leadsOut() {
		r.Closed = l.opts.Kernel.Closed
	}
	d, err := l.opts.Gate.Decide(ctx, r)
	if err == nil && d.Verdict == gate.Ask && inner.GetCommand() != nil {
		of := l.decisionRequest(sessionID, inner, e.seen)
		of.GivenUp, of.Apart = r.GivenUp, e.Apart
		if by, err := l.opts.Gate.Decide(ctx, of); err == nil && by.Verdict == gate.Allow {
			e.wrapped, d, a = true, by, inner
		}
	}
	return kernelOutcome{d, a, sessionID, r.Scope, e.Apart}, err
}

// observed records what would not have been allowed.
func (l *Link) observed(e *kernelEvent, o kernelOutcome, turns string) {
	e.entered(l) // what it does then is the doing of the command that was recorded
	if o.d.Verdict != gate.Allow && !l.kernel.first(turns, o.d.DenialKey()) {
		return
	}
	l.opts.Gate.ReportDone(o.d)
	if o.d.Verdict == gate.Deny && o.sessionID != "" {
		l.tellReport(o.sessionID, gate.Report{Decision: o.d})
	}
}

// first reports whether a denial, by its key, is the first of its kind in the turns that are under way.
func (k *kernelDoor) first(turns, key string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.turns != turns || k.denied == nil {
		k.turns, k.denied, k.notices = turns, map[string]bool{}, 0
	}
	if k.denied[key] {
		return false
	}
	if len(k.denied) >= maxKernelDenials {
		clear(k.denied)
	}
	k.denied[key] = true
	return true
}

// noticed counts one more denial of the turn, and returns how many there are.
func (k *kernelDoor) noticed() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.notices++
	return k.notices
}

// denies records a denial, and tells the user, the first time in a turn. It returns what the process is told.
func (l *Link) denies(o kernelOutcome, by, turns string) string {
	said := words(o.d, "refused")
	if !l.kernel.first(turns, o.d.DenialKey()) {
		return said
	}
	_ = l.conclude(o.sessionID, o.scope, o.d, gate.Outcome{By: by}) // a denial stands without a record
	if o.sessionID == "" {
		return said
	}
	switch n := l.kernel.noticed(); {
	case n <= maxKernelNotices:
		l.tellAbout(o.d.DenialKey(), o.sessionID, deniedTitle, o.d.Denial())
	case n == maxKernelNotices+1:
		l.tell(o.sessionID, "More of what the agent does in this turn is denied", "\"acphost audit tail\" shows all of it")
	}
	return said
}

// words are what a process is told of a decision.
func words(d *gate.Decision, what string) string {
	return safetext.Cut(safetext.Line(what+": "+d.Denial()), 400)
}

// asksLater has the user asked about something that is refused meanwhile. It returns what the process is told, and whether the user
// can answer.
func (l *Link) asksLater(e *kernelEvent, o kernelOutcome) (said string, asked bool) {
	refused := func(why string) (string, bool) {
		o.d.Reason = strings.TrimSuffix(o.d.Reason+" ("+why+")", " ()")
		return l.denies(o, gate.ByAcphost, l.turnsOf(e.sessions)), false
	}
	if o.sessionID == "" {
		why := "the user would be asked, but no session is open"
		if changes(e.Operation) {
			why += "; if it is the agent's own file, name its folder in sandbox.own"
		}
		return refused(why)
	}
	key := o.d.Key()
	switch l.kernel.ask(key) {
	case askedAlready:
		return words(o.d, "refused until the user has answered"), true
	case tooManyAsked:
		return refused("too many questions wait for the user")
	}
	l.spawn(func() {
		defer l.kernel.answered(key)
		l.askAboutTry(o)
	})
	return words(o.d, "refused, and the user is asked: the answer counts for the next try"), true
}

// What becomes of a question about a try.
const (
	askedNow = iota
	askedAlready
	tooManyAsked
)

func (k *kernelDoor) ask(key string) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.asking[key]:
		return askedAlready
	case len(k.asking) >= maxKernelQuestions:
		return tooManyAsked
	case k.asking == nil:
		k.asking = map[string]bool{}
	}
	k.asking[key] = true
	return askedNow
}

func (k *kernelDoor) answered(key string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.asking, key)
}

// kernelQuestion is a question of acphost's own about what a process has tried. It implements question.Asker. Nobody waits for
// its end.
type kernelQuestion struct {
	callQuestion
	outcome kernelOutcome
}

// Record implements question.Asker.
func (q *kernelQuestion) Record(d *gate.Decision, o gate.Outcome, answered bool) error {
	if answered {
		q.policyLearns(d, o)
	}
	return q.conclude(q.outcome.sessionID, q.outcome.scope, d, o)
}

// askAboutTry puts a question to the user, and returns when it has ended.
func (l *Link) askAboutTry(o kernelOutcome) {
	shown := l.newKernelCall(o)
	q := &kernelQuestion{callQuestion: callQuestion{Link: l}, outcome: o}
	q.Question = l.questions.Add(&question.Question{
		ID: jsonrpc.AppendString(nil, l.opts.Names.next(jsonrpc.NewID())), Own: true, Method: acp.MethodRequestPermission,
		SessionID: o.sessionID, Params: shown.question(o.d, nil), Options: offered(o.d), Reason: reasonOf(o.d),
	}, q)
	q.Decided(o.d)
	l.own.Add(q.ID, q.Question)
	defer l.own.Remove(q.ID)
	_ = q.Ask(func(show func(see func()) bool) error {
		if !show(func() {
			l.postClient(shown.created())
			l.postClient(jsonrpc.AppendRequest(nil, q.ID, acp.MethodRequestPermission, q.Params))
		}) {
			return question.ErrEnded
		}
		return nil
	})
	select {
	case <-q.Done():
	case <-l.ended:
		q.Finish(question.Ending{Cause: question.LinkOver})
		<-q.Done()
	}
	r := &q.reply
	if r.Ending.Cause == question.ClientAnswers {
		l.see(frame.ClientToOurs, "", r.Ending.Line)
	}
	status := "failed"
	if r.Outcome.Allowed && r.Unrecorded == nil {
		status = "completed"
	}
	l.postClient(shown.updated(status))
}

// newKernelCall describes to the user what a process has tried.
func (l *Link) newKernelCall(o kernelOutcome) *ownCall {
	c := &ownCall{sessionID: o.sessionID, id: l.opts.Names.next(o.d.ID()), title: intent.Summary(o.action), kind: ownKind(o.action.GetKind())}
	said := "A process of the agent's has tried this by itself, and was refused. If you allow it, the next try passes."
	if o.apart {
		said += " It runs where the agent may have mounted other libraries, settings and files than yours. What it does then is allowed, but for what rules deny."
	}
	if why := o.d.Why(); why != "" {
		said += " Asked because: " + why
	}
	c.content = textContent(said)
	if o.action.GetCommand() != nil {
		c.content = appendItem(c.content, shownInBlock(o.action.GetCommand()))
	}
	locations := []byte{'['}
	for i, p := range o.action.GetPaths() {
		if i > 0 {
			locations = append(locations, ',')
		}
		locations = append(jsonrpc.AppendString(append(locations, `{"path":`...), p.GetPath()), '}')
	}
	c.locations = append(locations, ']')
	return c
}
