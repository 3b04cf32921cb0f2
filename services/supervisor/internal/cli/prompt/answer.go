package prompt

import (
	"strings"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/tui/render"
)

// maxAnswer limits the bytes of an answer.
const maxAnswer = 64 << 20

// answer is the final answer of the agent: its messages since its last tool call, or those before it if there are none
// after it. The zero value is ready.
type answer struct {
	events []*supervisorv1.Event
	size   int
	cut    bool // the answer exceeded maxAnswer
	worked bool // there was a tool call after events, so the next message begins another answer
}

// event processes an event of the turn.
func (a *answer) event(ev *supervisorv1.Event) {
	if ev.GetHistory() {
		return
	}
	if ev.GetToolCall() != nil {
		a.worked = true
	}
	message := ev.GetAgentMessage()
	if message == nil {
		return
	}
	if a.worked {
		if text, ok := message.GetContent().GetContent().(*supervisorv1.ContentBlock_Text); ok && strings.TrimSpace(text.Text.GetText()) == "" {
			return // a message does not begin with an empty piece
		}
		*a = answer{}
	}
	if a.size += len(message.GetContent().GetText().GetText()); a.size > maxAnswer {
		a.cut = true
		return
	}
	a.events = append(a.events, ev)
}

// text returns the formatted answer.
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

// printing selects the content of standard output.
type printing string

const (
	printText  printing = "text"  // all events, for users
	printFinal printing = "final" // only the final answer of the agent
	printJSON  printing = "json"  // events as JSON lines
)

// printings are all values, for help and completion.
var printings = []string{string(printText), string(printFinal), string(printJSON)}

// show prints an event of the turn, except for its end.
func (p *promptRun) show(ev *supervisorv1.Event) {
	if p.prints == printFinal {
		p.answer.event(ev)
		if !p.attended || ev.GetQuestionAsked() == nil && ev.GetQuestionAnswered() == nil {
			return // the user sees the questions and their answers
		}
	}
	p.screen.print(p.r.Event(ev))
}
