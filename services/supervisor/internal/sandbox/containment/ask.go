package containment

import (
	"strings"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// deny records a denial and notifies the user, once a turn for each action. Further denials of the action are counted.
// It returns the text for the process.
func (d *Decider) deny(t Try, by, turns string) string {
	said := denialText(t.Decision, t.Decision.HowToAsk())
	if !d.turn.firstDenial(turns, t.Decision.DenialKey()) {
		d.opts.Gate.CountDenied(t.Decision, by)
		return said
	}
	_ = d.link.Conclude(t.SessionID, t.Scope, t.Decision, gate.Outcome{By: by}) // the action is denied even if the record fails
	switch {
	case t.Decision.Rule == gate.RuleAgentHosts: // the user need not know of each attempt of telemetry
		return said
	case t.SessionID == "":
		d.mu.Lock()
		defer d.mu.Unlock()
		if len(d.atStart) < maxAtStart {
			d.atStart = append(d.atStart, t.Decision.Denial())
		}
		return said
	}
	switch n := d.turn.countNotice(); {
	case n <= maxNotices:
		d.link.TellDenied(t.SessionID, t.Decision)
	case n == maxNotices+1:
		d.link.TellMore(t.SessionID)
	}
	return said
}

// RefusedAtStart returns the first denials while no session was open, as the end of an error: "; the sandbox refused:
// …". It returns "" if there were none. No notice reports these denials, and they may be the reason why an agent does
// not start.
func (d *Decider) RefusedAtStart() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	text := ""
	for _, denial := range d.atStart {
		text += "; the sandbox refused: " + safetext.Line(denial)
	}
	return text
}

// refuseLink refuses another name for a file that the process may not change. The user is not asked, because programs
// that make such links copy the file instead, and is notified once a turn.
func (d *Decider) refuseLink(t Try, turns string) string {
	t.Decision.Reason, t.Decision.Detail = reason.LinkToProtected.String(), t.Decision.Reason
	if d.turn.firstDenial(turns, "links") {
		return d.deny(t, gate.ByAcphost, turns)
	}
	return denialText(t.Decision, "")
}

// How an agent, which reads the text in the output of its command, can go on.
const (
	asked   = "; the user has been asked: try again after the answer"
	waiting = "; the user has not answered yet: try again later"
)

// denialText returns the text about a decision for the process: what was refused, why, and how to go on.
func denialText(d *gate.Decision, goOn string) string {
	return safetext.Cut(safetext.Line("refused: "+d.Denial()), 400) + goOn
}

// askLater refuses an action and queues a question about it, unless a question about it has ended in this turn. It
// returns the text for the process, and whether the user can answer.
func (d *Decider) askLater(e *event, t Try) (said string, wait bool) {
	deny := func(why reason.Reason) (string, bool) {
		t.Decision.Reason = strings.TrimPrefix(strings.TrimSuffix(t.Decision.Reason, ".")+"; "+why.String(), "; ")
		return d.deny(t, gate.ByAcphost, d.turnsOf(e.sessions)), false
	}
	if t.SessionID == "" && changes(e.Operation) {
		return deny(reason.NoSessionOpenFile)
	}
	if t.SessionID == "" {
		return deny(reason.NoSessionOpen)
	}
	key, turn := t.Decision.Key(), d.turnsOf([]string{t.SessionID})
	switch state, why := d.turn.ask(key, turn); state {
	case askedAlready:
		return denialText(t.Decision, waiting), true
	case askedAndRefused:
		t.Decision.Verdict, t.Decision.By, t.Decision.Reason = gate.Deny, gate.ByEarlier, why
		return d.deny(t, "", d.turnsOf(e.sessions)), false
	case tooManyAsked:
		return deny(reason.TooManyQuestions)
	}
	// The end of the question, which may come at once, changes the decision.
	said = denialText(t.Decision, asked)
	d.link.AskAboutTry(t, func(allowed bool) { d.turn.answered(key, turn, allowed, t.Decision.Reason) })
	return said, true
}
