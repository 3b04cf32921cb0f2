package gate

import (
	"cmp"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// MethodTerminalCreate is the call to which permission requests are left.
	MethodTerminalCreate = "terminal/create"
	// maxLeft is how many permission requests of one turn may wait for their calls.
	maxLeft = 16
)

// leftRequest is a permission request that was left to its call: the agent was told to go on without a question, because the
// call by which it goes on is decided anyway. It allows nothing: no call passes and no grant is made because of it.
type leftRequest struct {
	toolCall     string // the id of the agent's tool call
	said         string // Decision.Said
	rule, reason string // of the rule of a policy that asks about the request; rule is empty if no rule asks
	at           time.Time
	called       bool // its call has come
	refused      bool // its call was refused
}

// Leaves reports whether the question that d asks may be left to a call of terminal/create that the agent is known to make: a
// policy was asked and wants a person asked, and it decides that call too. At most 16 requests of a turn wait for their calls
// at a time. If Leaves reports true, end d with Outcome.Left.
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

// leave remembers a request that was left to its call. Call it with the lock.
func (g *Gate) leave(d *Decision) {
	r := d.request
	l := g.ledger(r)
	l.left = appendBounded(l.left, &leftRequest{toolCall: r.Action.GetToolCallId(), said: d.Said, rule: d.Rule, reason: d.Reason, at: g.opts.Now()})
}

// takeLeft finds the oldest request that was left to its call, if the call that d is about may be that one, and tells d what the
// agent said then. If a rule asks about the request, a person is asked about the call as well: the rule may name what only
// requests have, as the name of a tool.
func (g *Gate) takeLeft(r Request, d *Decision) {
	if r.Scope == "" || r.Action.GetDoor() != permissionv1.Door_DOOR_CALL || r.Action.GetKind() != "terminal.create" || r.Action.GetDone() {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	now := g.opts.Now()
	for _, left := range g.ledger(r).left {
		if left.called || now.Sub(left.at) > answerLife {
			continue
		}
		left.called = true
		d.left, d.Said = left, left.said
		if left.rule != "" && d.Verdict == Allow && d.By == ByPolicy {
			d.Verdict, d.Rule, d.Grantable = Ask, left.rule, false
			d.Reason = cmp.Or(left.reason, "the rule asks about the agent's request")
		}
		return
	}
}
