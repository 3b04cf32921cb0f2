package prompt

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// maxNamed limits the denied actions and the questions that are listed. Others are counted.
const maxNamed = 8

// Values of answered_by in records without a user's answer.
const (
	byPolicy  = "policy"
	byAcphost = "acphost"
	byNobody  = "nobody"
	byTimeout = "timeout"
)

// unasked is the outcome in records of an action that the agent performed without asking.
const unasked = "done, not asked"

// denials collects the actions of a turn that were denied, those that the agent performed although the policy denies
// them, and its unanswered questions. It is safe for concurrent use.
type denials struct {
	mu         sync.Mutex
	denied     int
	named      []string
	done       int
	doneNamed  []string
	unanswered int
	questions  []string
	open       map[string]string // questions that are open, by id
}

// add adds the record of an action that was denied, or performed nevertheless. Unanswered questions are taken from
// events.
func (d *denials) add(rec *supervisorv1.AuditRecord) {
	d.mu.Lock()
	defer d.mu.Unlock()
	by, count, named := rec.GetAnsweredBy(), &d.denied, &d.named
	switch {
	case rec.GetOutcome() == unasked:
		by, count, named = byPolicy, &d.done, &d.doneNamed
	case by == byNobody || by == byTimeout:
		return
	}
	*count++
	if len(*named) >= maxNamed {
		return
	}
	why := "rule " + safetext.Line(rec.GetRule())
	switch {
	case rec.GetRule() == "" || by != byPolicy && by != byAcphost:
		why = "answered by " + safetext.Line(cmp.Or(by, byPolicy))
	case strings.HasSuffix(rec.GetReason(), "denied by rule "+rec.GetRule()): // permd's default reason
		why = safetext.Line(rec.GetReason())
	case rec.GetReason() != "":
		why += ": " + safetext.Line(rec.GetReason())
	}
	*named = append(*named, fmt.Sprintf("%s (%s)", safetext.Line(intent.Summary(rec.GetAction())), why))
}

// event processes an event of the turn. Unanswered questions are collected if attended is false.
func (d *denials) event(ev *supervisorv1.Event, attended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if a := ev.GetQuestionAsked(); a != nil && !attended && len(d.open) < maxWatched {
		if d.open == nil {
			d.open = map[string]string{}
		}
		d.open[a.GetId()] = render.QuestionSubject(a)
	}
	a := ev.GetQuestionAnswered()
	title, asked := d.open[a.GetId()]
	if !asked {
		return
	}
	delete(d.open, a.GetId())
	if slices.Contains([]string{"allowed", "accepted"}, a.GetOutcome()) {
		return
	}
	d.unanswered++
	if len(d.questions) < maxNamed {
		d.questions = append(d.questions, title)
	}
}

// any reports whether there are denied actions or unanswered questions.
func (d *denials) any() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.denied+d.done+d.unanswered > 0
}

// lines describes unanswered questions, denied actions and actions that were performed nevertheless, in a line each.
func (d *denials) lines() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lines []string
	if d.unanswered > 0 {
		lines = append(lines, fmt.Sprintf("no user was here to answer %s: %s", safetext.Count(d.unanswered, "question"), listed(d.questions, d.unanswered)))
	}
	if d.denied > 0 {
		lines = append(lines, fmt.Sprintf("%s denied: %s", safetext.Count(d.denied, "action"), listed(d.named, d.denied)))
	}
	if d.done > 0 {
		lines = append(lines, fmt.Sprintf("the agent reports that it did what the policy denies, without asking: %s", listed(d.doneNamed, d.done)))
	}
	return lines
}

// listed formats a list with the number of entries that are not listed.
func listed(named []string, all int) string {
	text := strings.Join(named, "; ")
	if more := all - len(named); more > 0 {
		text += fmt.Sprintf("; and %d more: see \"acphost audit tail\"", more)
	}
	return text
}

// sayDenied prints the denied actions.
func (p *promptRun) sayDenied() {
	for _, line := range p.denials.lines() {
		p.printf("%s", line)
	}
	if p.status != nil && p.denials.denied+p.denials.done > 0 { // a user reads it
		p.printf(`"acphost policy why --denied" explains the last one; give it the --policy that you gave here`)
	}
}
