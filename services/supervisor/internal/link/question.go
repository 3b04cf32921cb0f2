package link

import (
	"context"
	"fmt"
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// PlaceFunc tells where a path leads.
type PlaceFunc = func(path string) intent.Place

// question is a session/request_permission that the gate has to do with.
type question struct {
	request  acp.PermissionRequest
	action   *permissionv1.Action
	decision gate.Decision
}

// question takes a permission question of the agent's (door one). It is put together here, in wire order, with what is
// known of its tool call, and decided by a worker; meanwhile the agent is read on.
func (p *agentPump) question(ctx context.Context, c *agentCall, m *jsonrpc.Message) error {
	if err := jsonrpc.DuplicateNames(m.Params, "sessionId", "toolCall", "options", "_meta"); err != nil {
		p.counters.refused.Add(1)
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + message(err)})
		return nil
	}
	line := slices.Clone(m.Raw)
	params := slices.Clone(m.Params)
	req, err := acp.ParsePermissionRequest(params)
	if err != nil {
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("%s: %v", c.method, err)})
		return nil
	}
	tc := p.opts.Book.ToolCall(c.sessionID, req.ToolCall)
	if tc.Ambiguous != "" {
		p.counters.refused.Add(1)
		p.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: c.method + ": " + tc.Ambiguous})
		return nil
	}
	c.state.Store(atGate)
	ok := p.queue.add(job{call: c, weight: int64(len(line) + len(params)), waits: true, run: func(ctx context.Context) {
		p.decide(ctx, c, req, tc, line)
	}})
	if !ok {
		p.answerError(c, overloaded(c))
	}
	return nil
}

// decide asks the gate about a question and answers it, or sends it on to the front as it came.
func (l *Link) decide(ctx context.Context, c *agentCall, req acp.PermissionRequest, tc acp.ToolCall, line []byte) {
	ctx, cancel, ok := c.begin(ctx, 0)
	defer cancel()
	if !ok {
		return
	}
	scene := intent.Scene{Agent: l.opts.AgentName, Dialect: l.Reported().Name, SessionID: c.sessionID}
	if cc, err := l.opts.Book.Context(c.sessionID); err == nil {
		scene.Mode = cc.GetMode()
		for _, r := range cc.GetRoots() {
			scene.Roots = append(scene.Roots, r.GetPath())
		}
	}
	if l.opts.Place != nil {
		scene.Place = l.opts.Place(ctx, c.sessionID)
	}
	action := intent.Question(scene, tc)
	l.protectCommand(action)
	d, err := l.opts.Gate.Question(ctx, action)
	if err != nil {
		return // cancelled: whoever did it has answered
	}
	switch d.Verdict {
	case permissionv1.Verdict_VERDICT_ALLOW:
		// Never allow_always: what a policy allows now, it may deny later.
		if id, ok := req.Option(acp.AllowOnce); ok {
			l.answerResult(c, acp.Selected(id))
			return
		}
	case permissionv1.Verdict_VERDICT_DENY:
		if id, ok := req.Option(acp.RejectOnce, acp.RejectAlways); ok {
			l.answerResult(c, acp.Selected(id))
			return
		}
		l.answerError(c, &jsonrpc.Error{Code: jsonrpc.CodeInternal, Message: fmt.Sprintf("%s: denied: %s", c.method, denial(d))})
		return
	}
	l.ask(c, &question{request: req, action: action, decision: d}, tc, line)
}

// ask sends a question on to the front: the very bytes that came, unless it shows a terminal that the front must be
// told of first.
func (l *Link) ask(c *agentCall, q *question, tc acp.ToolCall, line []byte) {
	_, err := c.send(q, func() error {
		if l.display != nil && display.Mentions(q.request.ToolCall) {
			return l.display.Forward(c.sessionID, line, tc, l.toFront.Send, "params", "toolCall")
		}
		return l.toFront.Send(line)
	}, l.toFront.Forward)
	if err != nil {
		l.end(FrontGone, err)
	}
}

// questionAnswered tells the gate what the front chose.
func (l *Link) questionAnswered(c *agentCall, m *jsonrpc.Message) {
	q := c.question
	outcome := "cancelled"
	if id, ok := acp.String(acp.Get(m.Result, "outcome", "optionId")); ok {
		for _, o := range q.request.Options {
			if o.ID == id {
				outcome = o.Kind
			}
		}
	}
	l.wg.Go(func() { l.opts.Gate.Answered(context.Background(), q.action, q.decision, outcome, "front") })
}

// protectCommand marks an action whose command names acphost's own files.
func (l *Link) protectCommand(a *permissionv1.Action) {
	cwd := ""
	if len(a.GetRoots()) > 0 {
		cwd = a.GetRoots()[0]
	}
	if p := l.opts.Gate.ProtectedCommand(a.GetCommand(), cwd); p != "" {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: p, Access: permissionv1.Access_ACCESS_WRITE, Protected: true})
	}
}

func denial(d gate.Decision) string {
	switch {
	case d.Rule == "":
		return d.Reason
	case d.Reason == "":
		return "rule " + d.Rule
	}
	return fmt.Sprintf("%s (rule %s)", d.Reason, d.Rule)
}
