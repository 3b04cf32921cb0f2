package gate

import (
	"cmp"
	"crypto/sha256"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/reason"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Limits on the decisions that are remembered for one turn.
const (
	maxAnswers = 1024
	// answerLife is how long an answer to a permission request counts for a call. The end of the turn ends it sooner.
	answerLife = 10 * time.Minute
)

// ledger holds the decisions of the current turn of one session. The Gate's mu guards its fields.
type ledger struct {
	turn uint64
	// asked are the answers to permission requests, calls the decisions about calls; both oldest first.
	asked, calls []*answer
	// left are the requests that were deferred to their calls, oldest first. They are not answers.
	left []*leftRequest
	// reported are the tool calls whose end was checked. terminals are the terminals of allowed calls.
	reported, terminals map[string]bool
}

// answer is an answer about an action.
type answer struct {
	action  *permissionv1.Action
	shown   Seen // Decision.Shown
	allowed bool
	person  bool    // a person gave the answer, now or earlier
	surface Surface // the surface that the person used; SurfaceInput if the answer covers the action anyway
	named   bool    // only the name of the tool was allowed, so no call passes
	// contained: the command's line was not judged (Decision.Contained).
	contained bool
	at        time.Time
	reads     bool            // the person has read that the command reads files that the policy forbids
	used      map[string]bool // the writes, and the command, that passed because of this answer
	over      bool            // the tool call has ended
}

func newLedger(turn uint64) *ledger {
	return &ledger{turn: turn, reported: map[string]bool{}, terminals: map[string]bool{}}
}

// Created records a terminal of an allowed call.
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

// ledger returns the ledger of a turn, and drops that of the previous turn.
func (g *Gate) ledger(r Request) *ledger {
	l := g.ledgers[r.Scope]
	switch {
	case l == nil || r.Turn > l.turn:
		l = newLedger(r.Turn)
		g.ledgers[r.Scope] = l
	case r.Turn < l.turn: // the turn is over, so the decision no longer counts
		return newLedger(r.Turn)
	}
	return l
}

// OfItsTurn returns the request with the decisions of its turn. Reported then uses these, even if the turn or the session ends before
// Reported is called.
func (g *Gate) OfItsTurn(r Request) Request {
	if r.Scope != "" {
		g.mu.Lock()
		defer g.mu.Unlock()
		r.ledger = g.ledger(r)
	}
	return r
}

// answeredEarlier decides about a call by the answer to a permission request for the same action in the same turn. So the user is not asked
// twice about a call that was allowed, or that a person refused. A write passes if it leaves the file as the question's diffs showed it. A
// write or a command passes once. A refusal of an edit applies to every write of its files.
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
		part := false
		switch {
		case e.over || e.named || now.Sub(e.at) > answerLife:
			continue
		case r.isSame(e.action):
		case e.allowed && e.person && intent.SamePart(e.action, r.Action):
			part = true
		default:
			continue
		}
		if !e.allowed && onceKey(r.Action) == "" && onceKey(e.action) != "" {
			continue // a change was refused, and this action changes nothing
		}
		if !e.allowed {
			if !e.person {
				return false // a policy denied it; ask the policy again for its reason
			}
			d.Verdict, d.By, d.Reason = Deny, ByEarlier, reason.RejectedBefore.String()
			return true
		}
		if r.Outside && !(e.person && e.shown.diffs(r.Action)) || !part && !e.covers(r) || part && !e.shown.covers(e.surface, e.action) {
			continue // the person may have seen only a title
		}
		about := r.Action
		if r.Inner != nil && about.GetCommand() == nil && !intent.Same(e.action, about) {
			about = r.Inner // the file that is about to replace the file of the question
		}
		if e.person && !intent.NamesAsItLeads(e.action, about) {
			continue // the person has read a name that differs from the file's
		}
		if !e.person && r.Action.GetEndpoint() != nil {
			continue // a rule about fetching names no machine; rules about machines apply
		}
		if !e.person && intent.Doubtful(r.Action) {
			continue // the rule used the agent's description; the call is decided anew
		}
		var before *[sha256.Size]byte
		kernel := r.Action.GetDoor() == permissionv1.Door_DOOR_KERNEL
		if r.Action.GetKind() == "fs.write" && !kernel {
			edit, ok := e.shown.Edits.Make(r.Written)
			if !ok {
				continue
			}
			before = &edit.Before
		}
		if key := onceKey(r.Action); key != "" && !(kernel && r.Action.GetCommand() == nil) {
			if part { // after the whole line, no part of it passes, and vice versa
				key += " " + actionKey(r.Action)
			}
			if e.used[key] || part && e.used["command"] || !part && key == "command" && len(e.used) > 0 {
				continue
			}
			if e.used == nil {
				e.used = map[string]bool{}
			}
			e.used[key] = true
		}
		d.Verdict, d.By, d.Reason, d.person, d.Before = Allow, ByEarlier, reason.AllowedRequest.String(), e.person, before
		d.readsKept, d.contained = e.reads, e.contained
		return true
	}
	return false
}

// covers reports whether the answer covers the action of a request (Seen.covers).
func (e *answer) covers(r Request) bool {
	about := r.Action
	if r.Inner != nil && !intent.Same(e.action, about) {
		about = r.Inner
	}
	return e.shown.covers(e.surface, about)
}

// isSame reports whether an answer to a permission request is about the request's action, or about Inner.
func (r Request) isSame(asked *permissionv1.Action) bool {
	return intent.Same(asked, r.Action) || r.Inner != nil && intent.Same(asked, r.Inner)
}

// onceKey identifies the part of a call that passes only once for an answer; empty: the call changes nothing.
func onceKey(a *permissionv1.Action) string {
	if a.GetCommand() != nil {
		return "command"
	}
	for _, p := range a.GetPaths() {
		if p.GetAccess() != permissionv1.Access_ACCESS_READ {
			return intent.PlaceOf(p)
		}
	}
	return ""
}

// rememberAnswer remembers an answer. person: a person gave it, now or earlier.
func (g *Gate) rememberAnswer(d *Decision, o Outcome, allowed, person bool) {
	r := d.request
	if r.Scope == "" || r.Action.GetDone() || r.Covered || r.InCommand || r.denyOnly() {
		return
	}
	e := &answer{action: cmp.Or(r.Inner, r.Action), shown: d.Shown, allowed: allowed, person: person, named: d.named, contained: d.contained, at: g.opts.Now()}
	e.reads = person && d.readsKept && showsInput(o.Surface)
	if e.surface = o.Surface; o.Option == "" { // of a policy or a grant: both are about the action itself
		e.surface = SurfaceInput
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.ledger(r)
	if isDone(r.Action) {
		if d.left != nil {
			d.left.refused = !allowed
		}
		l.calls = appendBounded(l.calls, e)
		return
	}
	l.asked = appendBounded(l.asked, e)
}

func appendBounded[T any](list []T, e T) []T {
	if len(list) >= maxAnswers {
		list = slices.Delete(list, 0, 1)
	}
	return append(list, e)
}

// EndTurn drops the answers that are valid for one turn.
func (g *Gate) EndTurn(scope string) {
	g.mu.Lock()
	delete(g.ledgers, scope)
	g.endTally(scope)
	g.mu.Unlock()
	if g.opts.Grants != nil {
		g.opts.Grants.EndTurn(scope)
	}
}

// EndSession drops everything that is valid for one session.
func (g *Gate) EndSession(scope string) {
	g.EndTurn(scope)
	g.mu.Lock()
	delete(g.kernel.tried, scope)
	g.mu.Unlock()
	if g.opts.Grants != nil {
		g.opts.Grants.EndSession(scope)
	}
}
