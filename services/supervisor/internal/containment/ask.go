package containment

import (
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// denies records a denial, and tells the user, the first time in a turn. It returns what the process is told.
func (d *Decider) denies(t Try, by, turns string) string {
	said := words(t.Decision, "refused")
	if !d.turn.first(turns, t.Decision.DenialKey()) {
		return said
	}
	_ = d.link.Conclude(t.SessionID, t.Scope, t.Decision, gate.Outcome{By: by}) // a denial stands without a record
	if t.SessionID == "" {
		return said
	}
	switch n := d.turn.noticed(); {
	case n <= maxNotices:
		d.link.TellDenied(t.SessionID, t.Decision)
	case n == maxNotices+1:
		d.link.TellMore(t.SessionID)
	}
	return said
}

// words are what a process is told of a decision.
func words(d *gate.Decision, what string) string {
	return safetext.Cut(safetext.Line(what+": "+d.Denial()), 400)
}

// asksLater has the user asked about something that is refused meanwhile. It returns what the process is told, and whether the user
// can answer.
func (d *Decider) asksLater(e *event, t Try) (said string, asked bool) {
	refused := func(why string) (string, bool) {
		t.Decision.Reason = strings.TrimSuffix(t.Decision.Reason+" ("+why+")", " ()")
		return d.denies(t, gate.ByAcphost, d.turnsOf(e.sessions)), false
	}
	if t.SessionID == "" {
		why := "the user would be asked, but no session is open"
		if changes(e.Operation) {
			why += "; if it is the agent's own file, name its folder in sandbox.own"
		}
		return refused(why)
	}
	key := t.Decision.Key()
	switch d.turn.ask(key) {
	case askedAlready:
		return words(t.Decision, "refused until the user has answered"), true
	case tooManyAsked:
		return refused("too many questions wait for the user")
	}
	d.link.AskAboutTry(t, func() { d.turn.answered(key) })
	return words(t.Decision, "refused, and the user is asked: the answer counts for the next try"), true
}
