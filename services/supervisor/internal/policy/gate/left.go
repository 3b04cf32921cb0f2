package gate

import (
	"cmp"
	"context"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// MethodTerminalCreate is the call that permission requests can be deferred to.
	MethodTerminalCreate = "terminal/create"
	// maxLeft limits the permission requests of one turn that wait for their calls.
	maxLeft = 16
)

// leftRequest is a permission request that was deferred to its call. The agent got an answer without a question, because the following call
// is decided anyway. It allows nothing: it lets no call pass and makes no grant.
type leftRequest struct {
	action *permissionv1.Action
	said   string // Decision.Said
	// rule is the rule of a policy that asks about the request, with its reason and the detail; empty: none.
	rule, reason, detail string
	at                   time.Time
	called               bool // its call has arrived
	refused              bool // its call was refused
}

// Leaves reports whether the question of d may be deferred to a call of terminal/create that the agent is known to make: a policy was asked
// and returned Ask, and calls of terminal/create are decided too. At most 16 requests of a turn wait for their calls at a time. If Leaves
// returns true, the caller ends d with Outcome.Left.
func (g *Gate) Leaves(d *Decision) bool {
	r := d.request
	if d.Verdict != Ask || d.By != ByPolicy || r.Scope == "" || r.GivenUp || isDone(r.Action) ||
		!g.Decides(MethodTerminalCreate, r.Action.GetRoots()) {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	waiting := 0
	for _, left := range g.ledger(r).left {
		if !left.called {
			waiting++
		}
	}
	return waiting < maxLeft
}

// deferRequest remembers a request that was deferred to its call; mu is held.
func (g *Gate) deferRequest(d *Decision) {
	r := d.request
	l := g.ledger(r)
	l.left = appendBounded(l.left, &leftRequest{action: r.Action, said: d.Said, rule: d.Rule, reason: d.Reason, detail: d.Detail, at: g.opts.Now()})
}

// matchDeferred finds the oldest deferred request that the call of d may belong to, and copies the agent's text to d. If a rule asks about
// the request, a person is asked about the call as well, because the rule may use fields that only requests have, such as the tool's name.
func (g *Gate) matchDeferred(ctx context.Context, r Request, d *Decision) {
	left := g.takeDeferred(r)
	if left == nil {
		return
	}
	d.left, d.Said = left, left.said
	if left.rule != "" && d.Verdict == Allow && d.By == ByPolicy && !(d.contained && g.allowsWithCall(ctx, left, r.Action)) {
		d.Verdict, d.Rule, d.Grantable = Ask, left.rule, false
		d.Reason, d.Detail = cmp.Or(left.reason, reason.AskedByRequest.String()), left.detail
	}
}

// takeDeferred returns the oldest deferred request that a call may belong to; nil: there is none.
func (g *Gate) takeDeferred(r Request) *leftRequest {
	if r.Scope == "" || r.Action.GetDoor() != permissionv1.Door_DOOR_CALL || r.Action.GetKind() != "terminal.create" || r.Action.GetDone() {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opts.Now()
	for _, left := range g.ledger(r).left {
		if !left.called && now.Sub(left.at) <= answerLife {
			left.called = true
			return left
		}
	}
	return nil
}

// allowsWithCall reports whether the policies allow a deferred request, whatever its line says, once its command is
// known from the call. A rule may have asked only because the request does not name the command.
func (g *Gate) allowsWithCall(ctx context.Context, left *leftRequest, call *permissionv1.Action) bool {
	request := proto.CloneOf(left.action)
	request.Kind, request.Unparsed = "tool.execute", ""
	request.Command, request.Paths = call.GetCommand(), call.GetPaths()
	said, err := g.ask(ctx, request)
	return err == nil && said.Verdict == Allow && said.Contained
}
