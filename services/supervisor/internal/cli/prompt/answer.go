package prompt

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/render"
)

// maxAnswer bounds what is kept of an answer, in bytes.
const maxAnswer = 64 << 20

// answer is what the agent says in the end: its messages since its last tool call, or those before it where it says nothing
// after it. The zero value is ready.
type answer struct {
	events []*supervisorv1.Event
	size   int
	cut    bool // there was more than maxAnswer
	worked bool // a tool call came after the events: the next message begins another answer
}

// event takes an event of the turn.
func (a *answer) event(ev *supervisorv1.Event) {
	if ev.GetHistory() {
		return
	}
	if ev.GetToolCall() != nil {
		a.worked = true
	}
	said := ev.GetAgentMessage()
	if said == nil {
		return
	}
	if a.worked {
		if text, ok := said.GetContent().GetContent().(*supervisorv1.ContentBlock_Text); ok && strings.TrimSpace(text.Text.GetText()) == "" {
			return // nothing to begin an answer with
		}
		*a = answer{}
	}
	if a.size += len(said.GetContent().GetText().GetText()); a.size > maxAnswer {
		a.cut = true
		return
	}
	a.events = append(a.events, ev)
}

// text is the answer as it is shown.
func (a *answer) text(look render.Options) string {
	look.Brief = false
	r := render.New(look)
	var b strings.Builder
	for _, ev := range a.events {
		b.WriteString(r.Event(ev))
	}
	b.WriteString(r.Flush())
	return b.String()
}

// printing is what is printed on standard output.
type printing string

const (
	printText  printing = "text"  // all that happens, for people
	printFinal printing = "final" // the agent's answer alone
	printJSON  printing = "json"  // events, one a line
)

// printings are all that there are, for help and completion.
var printings = []string{string(printText), string(printFinal), string(printJSON)}

// show prints an event of the turn, but for its end.
func (p *promptRun) show(ev *supervisorv1.Event) {
	if p.prints == printFinal {
		p.answer.event(ev)
		if !p.attended || ev.GetQuestionAsked() == nil && ev.GetQuestionAnswered() == nil {
			return // a person sees the questions and what became of them
		}
	}
	p.screen.print(p.r.Event(ev))
}
