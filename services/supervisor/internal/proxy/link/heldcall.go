package link

import (
	"context"
	"crypto/sha256"
	"errors"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/reason"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/acp/transcode"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/question"
)

// heldCall is a call of the agent that the gate decides about.
type heldCall struct {
	call   *agentCall
	route  *route.Route // nil: no route, so the call goes to the client
	cc     *acpv1.CallContext
	params []byte
	// pass makes the call, once it is allowed.
	pass func(ctx context.Context)

	// frame is the call as it was encoded for the check, without its context.
	frame *transcode.Frame
	// outside is the file outside of the roots that the call names, if its handler may open it once the call is allowed.
	outside string
	// before, if set, is closed once the client has all earlier messages of the session.
	before <-chan struct{}
	// waited: a person was asked.
	waited bool
	// seen is the SHA-256 of the file that a write replaces, as shown in acphost's question; nil: it was not shown.
	seen *[sha256.Size]byte
	// decision is the gate's decision, once the link acts on it.
	decision *gate.Decision
	// recorded, if set, receives the result of recording the decision.
	recorded chan error
}

func (h *heldCall) atHandler() bool { return h.route != nil && h.route.Target == route.Handler }

// kind returns the kind of the call's action.
func (h *heldCall) kind() string {
	switch {
	case h.route != nil && h.route.Action != "":
		return h.route.Action
	case strings.HasPrefix(h.call.method, "elicitation/"):
		return "elicitation"
	}
	return h.call.method
}

// judge asks the gate about a call. Then it makes the call, refuses it, or asks a person.
func (l *Link) judge(ctx context.Context, h *heldCall) {
	ctx, cancel, ok := h.call.begin(ctx)
	defer cancel()
	if !ok {
		return
	}
	ctx = h.call.span.Continue(ctx)
	if h.route != nil && h.route.Method != nil {
		// Nobody is asked about calls that the handler would reject. The check also finds params that can be read in two ways.
		var jerr *jsonrpc.Error
		if h.frame, jerr = h.route.Method.EncodeRequest(h.params, nil); jerr != nil {
			jerr.Message = h.call.method + ": " + jerr.Message
			l.answerError(h.call, jerr)
			return
		}
		if jerr = l.checkPaths(h); jerr != nil {
			l.answerError(h.call, jerr)
			return
		}
	}
	action, jerr := l.action(ctx, h)
	if jerr != nil {
		l.answerError(h.call, jerr)
		return
	}
	l.opts.Gate.Seen(action.GetKind())
	about := l.decisionRequest(h.call.sessionID, action, nil)
	about.Outside = h.outside != ""
	about.Elsewhere = h.atHandler() && l.opts.Sidecar != nil && l.opts.Sidecar(h.route.Handler)
	about.Written, about.GivenUp = intent.Written(action, h.params), l.opts.Sessions.GivenUp(h.call.sessionID)
	about.Argv = h.cc.GetResolvedCommand().GetArgv()
	d, err := l.gateDecides(ctx, h.call, about)
	if err == nil && d.Before != nil && !l.contentUnchanged(ctx, h, *d.Before) {
		about.Written = nil
		d, err = l.gateDecides(ctx, h.call, about)
	}
	if err != nil {
		return // the goroutine that gave the call up has answered it
	}
	switch d.Verdict {
	case gate.Allow:
		l.actOn(ctx, h, d, gate.Outcome{Allowed: true})
	case gate.Ask:
		if why := h.alwaysRejected(action); why != "" {
			d.Verdict, d.Rule, d.Reason = gate.Deny, gate.RuleOutside, why
			l.actOn(ctx, h, d, gate.Outcome{By: gate.ByAcphost})
			return
		}
		l.queue.again(job{call: h.call, weight: int64(len(h.params)), waits: true, run: func(ctx context.Context) {
			l.askAbout(ctx, h, d, action)
		}})
	default:
		l.actOn(ctx, h, d, gate.Outcome{})
	}
}

// pathChecker is the connection of a handler that has other paths than the client, such as pathmap.Conn.
type pathChecker interface {
	CheckRequest(f *transcode.Frame) error
}

// checkPaths returns an error if the call's handler is unavailable, or does not have one of its paths.
func (l *Link) checkPaths(h *heldCall) *jsonrpc.Error {
	if !h.atHandler() {
		return nil
	}
	conn, err := l.opts.Conn(h.route.Handler)
	if err != nil { // the user is not asked about a call that cannot be made
		jerr := transcode.ErrorFrom(err, h.route.Handler)
		jerr.Message = h.call.method + ": " + jerr.Message
		return jerr
	}
	mapped, ok := conn.(pathChecker)
	if !ok {
		return nil
	}
	if err := mapped.CheckRequest(h.frame); err != nil {
		jerr := transcode.ErrorFrom(err, h.route.Handler)
		jerr.Message = h.call.method + ": " + jerr.Message
		return jerr
	}
	return nil
}

// actOn records a decision that needs no person, and makes or refuses the call.
func (l *Link) actOn(ctx context.Context, h *heldCall, d *gate.Decision, o gate.Outcome) {
	if o.Allowed {
		l.leaveOut(h, d)
	}
	if o.Allowed && h.call.safe && l.sessionUnchanged(h) {
		// A call that changes nothing is made while its record is written. Its answer waits for both.
		h.decidedBy(d, o)
		h.recorded = make(chan error, 1)
		l.spawn(func() {
			h.recorded <- panics.Catch(l.log, "recording a decision", func() error { return l.conclude(h.call.sessionID, h.cc.GetScope(), d, o) })
		})
		h.pass(ctx)
		return
	}
	l.finishDecided(ctx, h, d, o, l.recordCall(h, d, o))
}

// leaveOut sets a command that leaves out the files that the policy forbids, and notifies the user.
func (l *Link) leaveOut(h *heldCall, d *gate.Decision) {
	if argv := d.Argv(); argv != nil {
		h.cc.ResolvedCommand.Argv = argv
		l.tellAbout(d.DenialKey(), h.call.sessionID, "Files were left out", d.What()+": "+d.Why())
	}
}

// leaveOutAgain repeats the search for forbidden files after the user has answered the question, and then calls leaveOut; false: the
// command would read forbidden files.
func (l *Link) leaveOutAgain(h *heldCall, d *gate.Decision) bool {
	if !l.opts.Gate.LeaveOutNow(d) {
		return false
	}
	l.leaveOut(h, d)
	return true
}

// errSessionChanged means that a call's session ended, or its folders changed, after the call was judged.
var errSessionChanged = errors.New("the session ended, or its folders changed, before this was decided: ask again")

// recordCall records the outcome of a decision about a call. An error, which only an allowance can have, means that the call must be
// denied.
func (l *Link) recordCall(h *heldCall, d *gate.Decision, o gate.Outcome) error {
	if o.Allowed && !l.sessionUnchanged(h) {
		_ = l.conclude(h.call.sessionID, h.cc.GetScope(), d, gate.Outcome{Cancelled: true, By: o.By, Option: o.Option, Asked: o.Asked})
		return errSessionChanged
	}
	return l.conclude(h.call.sessionID, h.cc.GetScope(), d, o)
}

// finishDecided makes or refuses a call after its decision was recorded; err is the result of recordCall.
func (l *Link) finishDecided(ctx context.Context, h *heldCall, d *gate.Decision, o gate.Outcome, err error) {
	h.decidedBy(d, o)
	if err != nil || !o.Allowed {
		l.shownEnds(h.call, true)
	}
	switch {
	case o.Cancelled:
		l.answerError(h.call, cancelled(h.call))
	case errors.Is(err, errSessionChanged):
		l.deny(h.call, d, err.Error())
	case err != nil:
		l.refuse(h.call, d, question.Unrecorded)
	case !o.Allowed && o.Option != "":
		l.deny(h.call, d, reason.UserRejected.String())
	case !o.Allowed:
		l.refuse(h.call, d, d.Why())
	case h.seen != nil && !l.contentUnchanged(ctx, h, *h.seen):
		l.shownEnds(h.call, true)
		l.answerError(h.call, &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: h.call.method + ": the file changed while the user was asked about the write: read it again before writing"})
	case h.waited && h.outside != "" && !l.targetUnchanged(ctx, h):
		l.shownEnds(h.call, true)
		l.answerError(h.call, &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: h.call.method + ": the path leads elsewhere than when the user was asked about it: ask again"})
	case h.waited && !l.leaveOutAgain(h, d):
		l.shownEnds(h.call, true)
		l.answerError(h.call, &jsonrpc.Error{Code: jsonrpc.CodeInternal,
			Message: h.call.method + ": a file that the policy keeps from the command appeared while the user was asked about it: ask again"})
	default:
		h.pass(ctx)
	}
}

// alwaysRejected returns the reason why the handler rejects a call whatever a person answers; empty: it may accept the call.
func (h *heldCall) alwaysRejected(a *permissionv1.Action) string {
	if !h.atHandler() || !strings.HasPrefix(a.GetKind(), "fs.") || len(a.GetPaths()) != 1 {
		return ""
	}
	switch p := a.GetPaths()[0]; {
	case p.GetInsideRoots() || p.GetResolvedPath() == "":
		return ""
	case a.GetKind() == "fs.list":
		return reason.FolderOutside.String()
	case outside(p) == "":
		return reason.SystemFile.String()
	}
	return ""
}

// outside returns the target of a path that leaves the roots, if a handler may open it once the call is allowed; otherwise "".
func outside(p *permissionv1.PathAccess) string {
	if p.GetInsideRoots() || p.GetProtected() || paths.Kernel(p.GetResolvedPath()) {
		return ""
	}
	return p.GetResolvedPath()
}

// targetUnchanged reports whether the path of a call still leads to the judged file outside of the roots, and the file is not always
// refused.
func (l *Link) targetUnchanged(ctx context.Context, h *heldCall) bool {
	against := l.judging(ctx, h.call.sessionID, h.cc, nil)
	path, _ := acp.Exact(acp.Get(h.params, "path"))
	at := against.Place(path)
	return at.Resolved == h.outside && !at.Protected && !(at.GitInternal && h.kind() == "fs.write")
}

// waitForEarlier waits until the client has all messages before the call, or ctx ends.
func (h *heldCall) waitForEarlier(ctx context.Context) {
	if h.before == nil {
		return
	}
	select {
	case <-h.before:
	case <-ctx.Done():
	}
}

// decidedBy stores the decision about the call, and sets the fields that tell the handler whether a person allowed the call, and whether it
// may leave the roots.
func (h *heldCall) decidedBy(d *gate.Decision, o gate.Outcome) {
	h.decision = d
	if h.cc != nil {
		h.cc.Unasked = d.Unasked(o)
		if d.Outside(o) {
			h.cc.AllowedPath = h.outside
		}
	}
}

// askAbout asks a person about a call: it shows the client a tool call of acphost and a question about it. The answer decides whether the
// call is made or refused.
func (l *Link) askAbout(ctx context.Context, h *heldCall, d *gate.Decision, a *permissionv1.Action) {
	if h.call.sessionID == "" {
		d.Reason = strings.TrimPrefix(strings.TrimSuffix(d.Reason, ".")+"; "+reason.NoSessionToAsk.String(), "; ")
		l.actOn(ctx, h, d, gate.Outcome{By: gate.ByAcphost})
		return
	}
	work, cancel, ok := h.call.begin(ctx)
	defer cancel()
	if !ok {
		_ = l.opts.Gate.Record(d, gate.Outcome{Cancelled: true, By: gate.ByNobody})
		return
	}
	shown := l.newOwnCall(work, h, d, a)
	h.waitForEarlier(work)
	q := &callQuestion{Link: l, held: h}
	q.Question = l.questions.Add(&question.Question{
		ID: jsonrpc.AppendString(nil, l.opts.Names.next(jsonrpc.NewID())), Own: true, Method: acp.MethodRequestPermission,
		SessionID: h.call.sessionID, Params: shown.question(d, h.call.span), Options: offered(d), Reason: reasonOf(d), Detail: d.Detail, Span: h.call.span,
	}, q)
	q.Decided(d)
	h.waited = true
	if !h.call.ask(q.Question) {
		q.Finish(question.Ending{Cause: question.AgentCancels})
	}
	if l.opts.Sessions.GivenUp(h.call.sessionID) { // the agent has not read the cancellation of its turn yet
		q.CancelTurn()
	}
	l.own.Add(q.ID, q.Question)
	defer l.own.Remove(q.ID)
	_ = q.Ask(func(show func(see func()) bool) error {
		if !show(func() {
			h.call.show(shown)
			l.postClient(shown.created())
			l.postClient(jsonrpc.AppendRequest(nil, q.ID, acp.MethodRequestPermission, q.Params))
		}) {
			return question.ErrEnded
		}
		return nil
	})
	select {
	case <-q.Done():
	case <-ctx.Done():
		q.Finish(question.Ending{Cause: question.LinkOver})
		<-q.Done()
	}
	r := &q.reply
	if r.Ending.Cause == question.ClientAnswers {
		l.see(frame.ClientToOurs, "", r.Ending.Line)
	}
	if r.Outcome.Allowed {
		l.postClient(shown.updated("in_progress"))
	}
	l.finishDecided(ctx, h, d, r.Outcome, r.Unrecorded)
}

// sessionUnchanged reports whether the session of a call is unchanged since the call was judged.
func (l *Link) sessionUnchanged(h *heldCall) bool {
	return h.cc.GetScope() == "" || l.opts.Sessions.Current(h.cc)
}

// refuse notifies the person that a call was denied, and then answers the call. The notice comes first, because the agent may end the turn
// once it is answered, and a caller that waits only for the turn sees nothing after its end.
func (l *Link) refuse(c *agentCall, d *gate.Decision, why string) {
	l.tellAbout(d.DenialKey(), c.sessionID, deniedTitle, c.method+": denied: "+d.What()+": "+why)
	l.deny(c, d, why)
}

// deny answers a call in the name of the gate, so that observers can distinguish a denial from a failure.
func (l *Link) deny(c *agentCall, d *gate.Decision, why string) {
	l.answerErrorBy(GateName, c, deniedError(c, d, why))
}

// missingWords are words by which agents recognise errors about missing files.
var missingWords = []string{"not found", "enoent", "does not exist", "no such file"}

// deniedError returns the error for an agent about a denial, with its reason. The error must not read like one about a missing file because
// of a policy's words or a file's name; some agents would then create the file by other means.
func deniedError(c *agentCall, d *gate.Decision, why string) *jsonrpc.Error {
	const told = "acphost has told the user why"
	rule := told
	if d.Rule != "" {
		rule += " (rule " + d.Rule + ")"
	}
	text := told
	for _, say := range [...]string{d.What() + ": " + why, d.What() + ": " + rule, rule} {
		lower := strings.ToLower(say)
		if !slices.ContainsFunc(missingWords, func(words string) bool { return strings.Contains(lower, words) }) {
			text = say
			break
		}
	}
	return &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": denied: " + text + d.HowToAsk()}
}

// action returns the action of a call, with its paths and programs resolved.
func (l *Link) action(ctx context.Context, h *heldCall) (*permissionv1.Action, *jsonrpc.Error) {
	against := l.judging(ctx, h.call.sessionID, h.cc, nil)
	kind := h.kind()
	a := intent.Call(against, h.call.method, kind, h.params)
	if !h.atHandler() {
		a.Walls = nil // the client runs its commands wherever it likes
		l.lookFrom(nil, a)
		return a, nil
	}
	switch kind {
	case "fs.read", "fs.write", "fs.list":
		if all := a.GetPaths(); len(all) == 1 && all[0].GetResolvedPath() != "" {
			h.cc.ResolvedPath = &acpv1.ResolvedPath{Path: all[0].GetResolvedPath()}
			if kind != "fs.list" {
				h.outside = outside(all[0])
			}
		}
	case "terminal.create":
		return a, l.resolveCommand(ctx, against, h, a)
	}
	return a, nil
}

// resolveCommand asks the terminal handler for the programs that a command runs, so that these are judged and then run. If the handler does
// not implement that, it resolves them itself, as without a gate.
func (l *Link) resolveCommand(ctx context.Context, against intent.Session, h *heldCall, a *permissionv1.Action) *jsonrpc.Error {
	conn, err := l.opts.Conn(h.route.Handler)
	if err != nil {
		return transcode.ErrorFrom(err, h.route.Handler)
	}
	req := &terminalv1.ResolveCommandRequest{Context: h.cc}
	req.Command, _ = acp.Exact(acp.Get(h.params, "command"))
	req.Args, _ = acp.Strings(acp.Get(h.params, "args"))
	if cwd, ok := acp.Exact(acp.Get(h.params, "cwd")); ok {
		req.Cwd = &cwd
	}
	if env := acp.Get(h.params, "env"); env != nil {
		_ = acp.Elements(env, func(v []byte) bool {
			name, _ := acp.Exact(acp.Get(v, "name"))
			value, _ := acp.Exact(acp.Get(v, "value"))
			req.Env = append(req.Env, &terminalv1.EnvVariable{Name: name, Value: value})
			return true
		})
	}
	req.SimpleCommands = intent.SimpleCommands(a)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	client := terminalv1.NewTerminalServiceClient(conn)
	res, err := client.ResolveCommand(ctx, req)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil
	case err != nil:
		jerr := transcode.ErrorFrom(err, h.route.Handler)
		jerr.Message = h.call.method + ": " + jerr.Message
		return jerr
	}
	h.cc.ResolvedCommand = res.GetCommand()
	c := a.GetCommand()
	if c == nil {
		return nil // the action is marked as unparsed
	}
	if argv := res.GetCommand().GetArgv(); !res.GetCommand().GetShell() && len(req.GetArgs()) == 0 && len(argv) > 0 {
		against.Executed(a, argv) // the shell line is the name of a program
		req.SimpleCommands = intent.SimpleCommands(a)
		again, err := client.ResolveCommand(ctx, req)
		if err != nil {
			return transcode.ErrorFrom(err, h.route.Handler)
		}
		res.Found = again.GetFound()
	}
	intent.Found(a, res.GetFound())
	l.markOtherRoots(a, nil)
	if at := res.GetCwd(); at != "" && !intent.SameBelow(a, c.GetCwd(), at) {
		c.Cwd = at
	}
	return nil
}

// gateClient passes a call for the client through the gate. If the call is allowed, the client gets the agent's own bytes. All earlier
// messages are sent first, because the goroutine that sends the call does not wait for the pump.
func (p *agentPump) gateClient(c *agentCall, r *route.Route, cc *acpv1.CallContext, m *jsonrpc.Message) error {
	before, err := p.behind(m.SessionID)
	if err != nil {
		return err
	}
	line, params := slices.Clone(m.Raw), slices.Clone(m.Params)
	h := &heldCall{call: c, route: r, cc: cc, params: params, before: before}
	pass := func(context.Context) {
		if c.method == acp.MethodElicitationCreate {
			_ = p.elicit(c, params, p.writeQuestion(line)) // which ends the link if the client is gone
			return
		}
		sent, err := c.send(func() error { return p.sendClient(line) }, p.toClient.Send)
		if err != nil {
			p.end(ClientGone, err)
		}
		if err != nil || !sent {
			p.shownEnds(c, true)
		}
	}
	if h.pass = pass; before != nil {
		h.pass = func(context.Context) { // not in a worker, which others need
			p.queue.again(job{call: c, weight: int64(len(line)), waits: true, run: func(ctx context.Context) { h.waitForEarlier(ctx); pass(ctx) }})
		}
	}
	p.seeMessage(frame.AgentToHandler, GateName, m)
	c.state.Store(atGate)
	ok := p.queue.add(job{call: c, weight: int64(len(line) + len(params)), run: func(ctx context.Context) { p.judge(ctx, h) }})
	if !ok {
		p.answerError(c, overloaded(c))
	}
	return nil
}

// gateRouted passes a call for a handler through the gate.
func (p *agentPump) gateRouted(r *route.Route, c *agentCall, cc *acpv1.CallContext, params []byte, before <-chan struct{}) bool {
	h := &heldCall{call: c, route: r, cc: cc, params: params, before: before}
	h.pass = func(ctx context.Context) {
		if !c.proceed() {
			p.shownEnds(c, true)
			return
		}
		if !h.waited {
			p.call(ctx, r, c, cc, params, h)
			return
		}
		// It waited for a person, outside of the workers.
		p.queue.again(job{call: c, weight: int64(len(params)), waits: r.Method.Waits, run: func(ctx context.Context) {
			p.call(ctx, r, c, cc, params, h)
		}})
	}
	c.state.Store(atGate)
	return p.queue.add(job{call: c, weight: int64(len(params)), run: func(ctx context.Context) { p.judge(ctx, h) }})
}
