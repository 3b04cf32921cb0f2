package gate

import (
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
)

// Bounds on what is remembered of one turn.
const (
	maxAnswers = 1024
	// answerLife is how long what was allowed at door one may take to come to door two. A turn's end ends it sooner.
	answerLife = 10 * time.Minute
)

// ledger is what was decided in the current turn of one session. Its fields are guarded by the Gate's mu.
type ledger struct {
	turn uint64
	// asked are the answers at door one, calls the decisions at door two, both oldest first.
	asked []*answer
	calls []*answer
	// reported are the tool calls whose end was looked at, terminals the ones that were made by calls which passed.
	reported, terminals map[string]bool
}

// answer is what was answered about an action.
type answer struct {
	action  *permissionv1.Action
	allowed bool
	person  bool // answered by a person, or by what one said before
	named   bool // allowed only as what the agent calls the tool: no call passes for that
	at      time.Time
	used    map[string]bool // the writes, and the command, that were let through for it
	over    bool            // its tool call has ended
}

func newLedger(turn uint64) *ledger {
	return &ledger{turn: turn, reported: map[string]bool{}, terminals: map[string]bool{}}
}

// Created tells of a terminal that a call made which has passed door two.
func (g *Gate) Created(scope string, turn uint64, terminalID string) {
	if scope == "" {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if l := g.ledger(Request{Scope: scope, Turn: turn}); len(l.terminals) < maxAnswers {
		l.terminals[terminalID] = true
	}
}

// ledger returns the ledger of a turn. What is of another turn is forgotten: answers do not reach further.
func (g *Gate) ledger(r Request) *ledger {
	l := g.ledgers[r.Scope]
	switch {
	case l == nil || r.Turn > l.turn:
		l = newLedger(r.Turn)
		g.ledgers[r.Scope] = l
	case r.Turn < l.turn: // decided late: nothing of it counts any more
		return newLedger(r.Turn)
	}
	return l
}

// answeredEarlier decides about a call by what was answered at door one for just that, in the same turn: what was
// allowed is not asked twice, and what a person refused is not asked again. A write or a command is let through once.
func (g *Gate) answeredEarlier(r Request, d *Decision) bool {
	if r.Scope == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	asked := g.ledger(r).asked
	now := g.opts.Now()
	for i := len(asked) - 1; i >= 0; i-- {
		e := asked[i]
		if e.over || e.named || now.Sub(e.at) > answerLife || !intent.Same(e.action, r.Action) {
			continue
		}
		if !e.allowed {
			if !e.person {
				return false // a policy's no: it is asked again, and may say why
			}
			d.Verdict, d.By, d.Reason = Deny, ByEarlier, "a person refused just this a moment ago"
			return true
		}
		if key := onceKey(r.Action); key != "" {
			if e.used[key] {
				continue
			}
			if e.used == nil {
				e.used = map[string]bool{}
			}
			e.used[key] = true
		}
		d.Verdict, d.By, d.Reason = Allow, ByEarlier, "it was allowed when the agent asked"
		return true
	}
	return false
}

// onceKey names what of a call is let through only once for an answer; empty for what changes nothing.
func onceKey(a *permissionv1.Action) string {
	if a.GetCommand() != nil {
		return "command"
	}
	for _, p := range a.GetPaths() {
		if p.GetAccess() != permissionv1.Access_ACCESS_READ {
			if p.GetResolvedPath() != "" {
				return p.GetResolvedPath()
			}
			return p.GetPath()
		}
	}
	return ""
}

// enter remembers an answer.
func (g *Gate) enter(d *Decision, allowed, person bool) {
	r := d.request
	if r.Scope == "" || r.Action.GetDone() {
		return
	}
	e := &answer{action: r.Action, allowed: allowed, person: person, named: d.named, at: g.opts.Now()}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.ledger(r)
	if r.Action.GetDoor() == permissionv1.Door_DOOR_CALL {
		l.calls = appendBounded(l.calls, e)
		return
	}
	l.asked = appendBounded(l.asked, e)
}

func appendBounded(list []*answer, e *answer) []*answer {
	if len(list) >= maxAnswers {
		list = append(list[:0], list[1:]...)
	}
	return append(list, e)
}

// EndTurn forgets what reaches no further than a turn.
func (g *Gate) EndTurn(scope string) {
	g.mu.Lock()
	delete(g.ledgers, scope)
	g.mu.Unlock()
	if g.opts.Grants != nil {
		g.opts.Grants.EndTurn(scope)
	}
}

// EndSession forgets what reaches no further than a session.
func (g *Gate) EndSession(scope string) {
	g.EndTurn(scope)
	if g.opts.Grants != nil {
		g.opts.Grants.EndSession(scope)
	}
}
