package link

import (
	"context"
	"slices"
	"strings"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/transcode"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// gated is a call of the agent's that door two decides about.
type gated struct {
	call   *agentCall
	route  *route.Route // nil: nobody's here, so the front's
	cc     *acpv1.CallContext
	params []byte
	// pass does what was asked for, once that is allowed.
	pass func(ctx context.Context)
	// waits: what pass does waits for something outside.
	waits bool

	// frame is the call as it was encoded to be checked, without its context.
	frame *transcode.Frame
	// waited: a person was asked.
	waited bool
	// recorded, if set, tells whether the decision could be recorded, once it was.
	recorded chan error
}

func (g *gated) atHandler() bool { return g.route != nil && g.route.Target == route.Handler }

// kind is the action's.
func (g *gated) kind() string {
	switch {
	case g.route != nil && g.route.Action != "":
		return g.route.Action
	case strings.HasPrefix(g.call.method, "elicitation/"):
		return "elicitation"
	}
	return g.call.method
}

// judge has the gate decide about a call, and does what follows: passes it, refuses it, or has a person asked.
func (l *Link) judge(ctx context.Context, g *gated) {
	ctx, cancel, ok := g.call.begin(ctx, 0)
	defer cancel()
	if !ok {
		return
	}
	if g.route != nil && g.route.Method != nil {
		// What a handler would refuse, nobody is asked about. This also finds params that read in two ways.
		var jerr *jsonrpc.Error
		if g.frame, jerr = g.route.Method.EncodeRequest(g.params, nil); jerr != nil {
			jerr.Message = g.call.method + ": " + jerr.Message
			l.answerError(g.call, jerr)
			return
		}
	}
	action, jerr := l.action(ctx, g)
	if jerr != nil {
		l.answerError(g.call, jerr)
		return
	}
	l.opts.Gate.Seen(action.GetKind())
	d, err := l.opts.Gate.Decide(ctx, l.decisionRequest(g.call.sessionID, action))
	if err != nil {
		return // given up: whoever did it has answered
	}
	switch d.Verdict {
	case gate.Allow:
		l.settleCall(ctx, g, d, gate.Outcome{Allowed: true})
	case gate.Ask:
		l.queue.again(job{call: g.call, weight: int64(len(g.params)), waits: true, run: func(ctx context.Context) {
			l.askAbout(ctx, g, d, action)
		}})
	default:
		l.settleCall(ctx, g, d, gate.Outcome{})
	}
}

// settleCall records what came of a decision, and passes the call or refuses it.
func (l *Link) settleCall(ctx context.Context, g *gated, d *gate.Decision, o gate.Outcome) {
	if o.Allowed && !l.stillMeant(g) {
		_ = l.conclude(g.call.sessionID, g.cc.GetScope(), d, gate.Outcome{Cancelled: true, By: o.By, Option: o.Option, Asked: o.Asked})
		l.shownEnds(g.call, true)
		l.answerError(g.call, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: g.call.method +
			": denied: the session ended, or its folders changed, before this was decided: ask again"})
		return
	}
	if o.Allowed && g.call.safe {
		// A call that changes nothing is made while its record is written. Its answer waits for both.
		g.recorded = make(chan error, 1)
		l.spawn(func() { g.recorded <- l.conclude(g.call.sessionID, g.cc.GetScope(), d, o) })
		g.pass(ctx)
		return
	}
	err := l.conclude(g.call.sessionID, g.cc.GetScope(), d, o)
	if err != nil || !o.Allowed {
		l.shownEnds(g.call, true)
	}
	switch {
	case o.Cancelled:
		l.answerError(g.call, cancelled(g.call))
	case err != nil:
		l.refuse(g.call, "denied: "+whyUnrecorded)
	case !o.Allowed && o.Option != "":
		l.answerError(g.call, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: g.call.method + ": denied: a person refused it"})
	case !o.Allowed:
		l.refuse(g.call, "denied: "+d.Denial())
	default:
		g.pass(ctx)
	}
}

// stillMeant tells whether the session that a call was made for is the one that it was judged for.
func (l *Link) stillMeant(g *gated) bool {
	return g.cc.GetScope() == "" || l.opts.Book.Current(g.cc)
}

// whyUnrecorded is said of what was allowed and could not be recorded. The log says what went wrong: that names files
// which are none of the agent's business.
const whyUnrecorded = "it was allowed, but could not be recorded, and what is not recorded is not done: acphost's log says why (rule " +
	gate.RuleUnrecorded + ")"

// refuse tells the person that a call was denied, and answers it. In this order: an agent that was answered can end its
// turn, and what is told after that is seen by nobody who waits for the turn alone.
func (l *Link) refuse(c *agentCall, why string) {
	l.tell(c.sessionID, deniedTitle, c.method+": "+why)
	l.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: c.method + ": " + forAgents(why)})
}

// missingWords are what agents take for a missing file, whatever else an error says.
var missingWords = []string{"not found", "enoent", "does not exist", "no such file"}

// forAgents is a refusal's reason as agents are told it: a policy's words must not make an agent take a refusal for a
// missing file, which some go on to create by another way.
func forAgents(why string) string {
	lower := strings.ToLower(why)
	for _, words := range missingWords {
		if strings.Contains(lower, words) {
			return "denied: the person at the client is told why"
		}
	}
	return why
}

// action says what a call would do: where its path leads, and what its command really runs.
func (l *Link) action(ctx context.Context, g *gated) (*permissionv1.Action, *jsonrpc.Error) {
	scene := l.scene(ctx, g.call.sessionID, g.cc)
	kind := g.kind()
	a := intent.Call(scene, g.call.method, kind, g.params)
	if !g.atHandler() {
		return a, nil
	}
	switch kind {
	case "fs.read", "fs.write", "fs.list":
		if paths := a.GetPaths(); len(paths) == 1 && paths[0].GetResolvedPath() != "" {
			g.cc.ResolvedPath = &acpv1.ResolvedPath{Path: paths[0].GetResolvedPath()}
		}
	case "terminal.create":
		return a, l.resolveCommand(ctx, scene, g, a)
	}
	return a, nil
}

// resolveCommand has the terminal handler say what a command really runs, so that just this is judged and then run. A
// handler that cannot say decides itself, as without a gate.
func (l *Link) resolveCommand(ctx context.Context, scene intent.Scene, g *gated, a *permissionv1.Action) *jsonrpc.Error {
	conn, err := l.opts.Conn(g.route.Handler)
	if err != nil {
		return transcode.ErrorFrom(err, g.route.Handler)
	}
	req := &terminalv1.ResolveCommandRequest{Context: g.cc}
	req.Command, _ = acp.String(acp.Get(g.params, "command"))
	req.Args, _ = acp.Strings(acp.Get(g.params, "args"))
	if cwd, ok := acp.String(acp.Get(g.params, "cwd")); ok {
		req.Cwd = &cwd
	}
	if env := acp.Get(g.params, "env"); env != nil {
		_ = acp.Elements(env, func(v []byte) bool {
			name, _ := acp.String(acp.Get(v, "name"))
			value, _ := acp.String(acp.Get(v, "value"))
			req.Env = append(req.Env, &terminalv1.EnvVariable{Name: name, Value: value})
			return true
		})
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	res, err := terminalv1.NewTerminalServiceClient(conn).ResolveCommand(ctx, req)
	switch {
	case status.Code(err) == codes.Unimplemented:
		return nil
	case err != nil:
		jerr := transcode.ErrorFrom(err, g.route.Handler)
		jerr.Message = g.call.method + ": " + jerr.Message
		return jerr
	}
	g.cc.ResolvedCommand = res.GetCommand()
	c := a.GetCommand()
	if c == nil {
		return nil // the action says that it is unparsed
	}
	if argv := res.GetCommand().GetArgv(); !res.GetCommand().GetShell() && len(req.GetArgs()) == 0 && len(argv) > 0 {
		scene.Executed(a, argv) // what looks like a line for a shell is the name of a program
	}
	if at := res.GetCwd(); at != "" && !intent.SameBelow(a, c.GetCwd(), at) {
		c.Cwd = at
	}
	return nil
}

// gateFront puts a call that belongs to the front before the gate; the very bytes that came go on if it passes.
// What came before it is sent first: whoever sends it does not wait for the pump.
func (p *agentPump) gateFront(c *agentCall, r *route.Route, cc *acpv1.CallContext, m *jsonrpc.Message) error {
	if err := p.out.flush(); err != nil {
		return err
	}
	line, params := slices.Clone(m.Raw), slices.Clone(m.Params)
	g := &gated{call: c, route: r, cc: cc, params: params}
	g.pass = func(context.Context) {
		if c.method == acp.MethodElicitationCreate {
			_ = p.elicit(c, params, func(begins func(show func())) error {
				begins(func() { p.seeShown([][]byte{line}) })
				return p.toFront.Send(line)
			}) // which has ended the link, if the front is gone
			return
		}
		sent, err := c.send(nil, nil, func() error { return p.sendFront(line) }, p.toFront.Send)
		if err != nil {
			p.end(FrontGone, err)
		}
		if err != nil || !sent {
			p.shownEnds(c, true)
		}
	}
	p.seeMessage(frame.AgentToHandler, GateName, m)
	c.state.Store(atGate)
	ok := p.queue.add(job{call: c, weight: int64(len(line) + len(params)), run: func(ctx context.Context) { p.judge(ctx, g) }})
	if !ok {
		p.answerError(c, overloaded(c))
	}
	return nil
}

// gateRouted is the gate before a handler.
func (p *agentPump) gateRouted(r *route.Route, c *agentCall, cc *acpv1.CallContext, params []byte) bool {
	g := &gated{call: c, route: r, cc: cc, params: params, waits: r.Method.Waits}
	g.pass = func(ctx context.Context) {
		if !c.proceed() {
			p.shownEnds(c, true)
			return
		}
		if !g.waited {
			p.call(ctx, r, c, cc, params, g)
			return
		}
		// It waited for a person, outside of the workers.
		p.queue.again(job{call: c, weight: int64(len(params)), waits: g.waits, run: func(ctx context.Context) {
			p.call(ctx, r, c, cc, params, g)
		}})
	}
	c.state.Store(atGate)
	return p.queue.add(job{call: c, weight: int64(len(params)), run: func(ctx context.Context) { p.judge(ctx, g) }})
}
