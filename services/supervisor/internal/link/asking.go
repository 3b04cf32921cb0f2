package link

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// maxFailure is how many bytes of a front's error are passed on.
const maxFailure = 500

// ownQuestion is a question of our own that is open at the front.
type ownQuestion struct {
	id        []byte // quoted
	sessionID string
	offered   []string // kinds of option
	waiting   *waiting
	answers   chan ownAnswer // room for one: whoever takes the question out of the table sends it
}

// ownAnswer is what came of a question of our own.
type ownAnswer struct {
	option string // its kind; empty: cancelled
	by     string
	failed string // the front answered with an error
}

// askAbout has a person asked about a call (door two): the front is shown a tool call of ours and asked about it. The
// call goes on, or is refused, by the answer. Whoever gives the call up ends the question.
func (l *Link) askAbout(ctx context.Context, g *gated, d *gate.Decision, a *permissionv1.Action) {
	ctx, cancel, ok := g.call.begin(ctx, 0)
	defer cancel()
	if !ok {
		_ = l.opts.Gate.Settle(d, gate.Outcome{Cancelled: true, By: gate.ByNobody})
		return
	}
	if g.call.sessionID == "" {
		d.Reason += " (a person would be asked, but the call belongs to no session)"
		l.settleCall(ctx, g, d, gate.Outcome{By: gate.ByAcphost})
		return
	}
	started := time.Now()
	shown := l.newOwnCall(ctx, g, d, a)
	q := &ownQuestion{
		id:        jsonrpc.AppendString(nil, jsonrpc.NewID()),
		sessionID: g.call.sessionID,
		offered:   offered(d),
		answers:   make(chan ownAnswer, 1),
	}
	params := shown.question(d)
	var alone vigil
	q.waiting = newWaiting(&Question{
		ID: q.id, Own: true, Method: acp.MethodRequestPermission, SessionID: q.sessionID, Params: params,
		Options: kinds(q.offered), Reason: reasonOf(d), Asked: started, Expires: l.beginVigil(&alone, started),
	})
	g.waited = true
	g.call.show(shown)
	l.own.Add(q.id, q)
	l.postFront(shown.created())
	l.begins(q.waiting, func() { l.postFront(jsonrpc.AppendRequest(nil, q.id, acp.MethodRequestPermission, params)) })

	var look <-chan time.Time
	if l.opts.Attended != nil {
		ticker := time.NewTicker(l.opts.Unattended)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case answer := <-q.answers:
			l.answeredOwn(ctx, g, d, shown, answer, time.Since(started))
			return
		case <-ctx.Done():
			l.withdraw(q, End{Outcome: Withdrawn, By: gate.ByNobody})
			l.shownEnds(g.call, true)
			_ = l.opts.Gate.Settle(d, gate.Outcome{Cancelled: true, By: gate.ByNobody, Asked: time.Since(started)})
			return
		case <-look:
			if l.over(&alone, q.waiting) {
				l.expireOwn(ctx, g, d, shown, q, time.Since(started))
				return
			}
		}
	}
}

// nobodySaid says that nobody answered in time, or that nobody is there to.
func (l *Link) nobodySaid() string {
	if l.opts.Unattended <= time.Millisecond {
		return "nobody is there to answer"
	}
	return fmt.Sprintf("nobody answered within %v", l.opts.Unattended)
}

// expireOwn does what the policy wants where nobody answers.
func (l *Link) expireOwn(ctx context.Context, g *gated, d *gate.Decision, shown *ownCall, q *ownQuestion, took time.Duration) {
	kind := gate.RejectOnce
	if d.Unattended == gate.Allow {
		kind = gate.AllowOnce
	}
	if !l.withdraw(q, End{Outcome: Expired, Option: kind, By: gate.ByNobody}) { // it was answered in the same moment
		l.answeredOwn(ctx, g, d, shown, <-q.answers, took)
		return
	}
	d.Reason = strings.TrimSuffix(l.nobodySaid()+"; "+d.Reason, "; ")
	o := gate.Outcome{Allowed: d.Unattended == gate.Allow, By: gate.ByTimeout, Asked: took}
	if o.Allowed {
		l.postFront(shown.updated("in_progress"))
	}
	l.settleCall(ctx, g, d, o)
}

// answeredOwn does what a person chose.
func (l *Link) answeredOwn(ctx context.Context, g *gated, d *gate.Decision, shown *ownCall, answer ownAnswer, took time.Duration) {
	o := gate.Outcome{By: answer.by, Option: answer.option, Asked: took}
	switch answer.option {
	case gate.AllowOnce, gate.AllowAlways:
		o.Allowed = true
		l.postFront(shown.updated("in_progress"))
	case gate.RejectOnce, gate.RejectAlways:
	default:
		if answer.failed == "" {
			o.Cancelled = true
			break
		}
		o.By = gate.ByAcphost
		d.Reason = "a person was to be asked, and the client could not: " + answer.failed
	}
	l.spawn(func() {
		option := answer.option
		if option == "" {
			option = "cancelled"
		}
		l.opts.Gate.Answered(context.Background(), d, option, answer.by)
	})
	l.settleCall(ctx, g, d, o)
}

// withdraw ends a question of our own that needs no answer any more; false: it has one. A late one is swallowed.
func (l *Link) withdraw(q *ownQuestion, e End) bool {
	if _, open := l.own.Take(q.id); !open {
		return false
	}
	if e.Outcome == Expired {
		l.see(frame.FrontToOurs, gate.ByNobody, jsonrpc.AppendResult(nil, q.id, acp.Selected(e.Option)))
	}
	l.postFront(cancelLine(q.id))
	l.ends(q.waiting, e)
	return true
}

// ownAnswered takes the front's answer to a question of our own; false: it is no answer to one.
func (l *Link) ownAnswered(m *jsonrpc.Message) bool {
	q, ok := l.own.Take(m.ID)
	if !ok {
		return false
	}
	answer := ownAnswer{by: gate.ByFront}
	e := choice("", "", gate.ByFront)
	switch {
	case m.Error != nil:
		text, _ := acp.String(acp.Get(m.Error, "message"))
		answer.failed = shortened(text, maxFailure)
		if answer.failed == "" {
			answer.failed = "it answered with an error"
		}
	default:
		answer.option = chosen(m.Result)
		e = choice(answer.option, answer.option, gate.ByFront)
		if answer.option != "" && !slices.Contains(q.offered, answer.option) {
			answer.option, answer.failed = "", "it chose an option that was not offered"
			e.Outcome = Denied
		}
	}
	l.seeMessage(frame.FrontToOurs, "", m)
	l.ends(q.waiting, e)
	q.answers <- answer
	return true
}

// chosen is the id of the option in an answer to a question; empty: it was cancelled, or says nothing.
func chosen(result []byte) string {
	outcome := acp.Get(result, "outcome")
	if kind, _ := acp.String(acp.Get(outcome, "outcome")); kind != "selected" {
		return ""
	}
	id, _ := acp.String(acp.Get(outcome, "optionId"))
	return id
}

// postFront sends a frame of our own to the front, without waiting.
func (l *Link) postFront(lines []byte) {
	for line := range bytes.Lines(lines) {
		l.see(frame.OursToFront, "", line)
	}
	l.writeFront(lines)
}

// writeFront is postFront for what was seen already.
func (l *Link) writeFront(lines []byte) {
	if err := l.toFront.Post(lines); errors.Is(err, jsonrpc.ErrOverflow) {
		l.end(FrontGone, fmt.Errorf("the front reads nothing: %d MiB of messages wait for it", maxRefusals>>20))
	}
}
