package render

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// Bounds of a question.
const (
	maxMessage = 4 << 10
	maxURL     = 2 << 10
	maxRaw     = 600
)

// Question is a question as a person should see it before answering: what would be done, the command or the change, the
// places, why it is asked; or what a form or a page is about. Whole lines, without the answers that there are. Its mark
// is in reverse video, which nothing that an agent says is ever shown in.
func Question(o Options, a *supervisorv1.Approval) string {
	return question(o, a, func(*supervisorv1.ToolCallContent) bool { return false })
}

// question leaves out content that was seen.
func question(o Options, a *supervisorv1.Approval, seen func(*supervisorv1.ToolCallContent) bool) string {
	mark := o.paint(reverse|bold, " ? ")
	if !o.Color {
		mark = "?"
	}
	if e := a.GetElicitation(); e != nil {
		return mark + " " + elicitation(o, e)
	}
	p := a.GetPermission()
	var b strings.Builder
	b.WriteString(mark + " " + o.paint(bold, QuestionTitle(a)) + "\n")
	var body strings.Builder
	shown := false
	if command := commandOf(p.GetRawInput()); command != "" {
		shown = true
		lines := strings.Split(command, "\n")
		for i, l := range lines {
			lines[i] = codeLine(l)
		}
		body.WriteString(o.paint(bold, "$ ") + strings.TrimSuffix(bounded(o, lines, maxDiffLines), "\n") + "\n")
	}
	for _, item := range p.GetContent() {
		if seen(item) {
			shown = true
			continue
		}
		text := toolContent(o, item, "completed")
		shown = shown || text != ""
		body.WriteString(text)
	}
	body.WriteString(locations(o, &supervisorv1.ToolCall{Title: p.GetTitle(), Locations: p.GetLocations()}))
	if !shown && p.GetRawInput() != "" && p.GetRawInput() != "{}" {
		body.WriteString(o.paint(dim, "input: "+oneLine(p.GetRawInput(), maxRaw)) + "\n")
	}
	if p.GetReason() != "" && !p.GetFromAcphost() { // acphost's own questions say it in what they show
		body.WriteString(o.paint(yellow, "asked because: "+oneLine(p.GetReason(), maxRaw)) + "\n")
	}
	b.WriteString(indented(body.String(), toolIndent))
	return b.String()
}

// QuestionTitle is what a question is about, on one line.
func QuestionTitle(a *supervisorv1.Approval) string {
	if e := a.GetElicitation(); e != nil {
		return cmp.Or(CleanLine(e.GetMessage()), "the agent wants to know something")
	}
	p := a.GetPermission()
	title := cmp.Or(CleanLine(p.GetTitle()), CleanLine(p.GetKind()), "an action of the agent's")
	if p.GetFromAcphost() {
		return "May the agent do this? " + title
	}
	return "The agent asks: " + title
}

func elicitation(o Options, e *supervisorv1.Elicitation) string {
	message, cut := prefix(strings.TrimSpace(e.GetMessage()), maxMessage)
	message = Clean(message)
	if cut {
		message += "…"
	}
	lines := strings.Split(cmp.Or(message, "the agent wants to know something"), "\n")
	text := o.paint(bold, "The agent asks: "+lines[0]) + "\n" + indented(strings.Join(lines[1:], "\n"), toolIndent)
	if e.GetMode() == "url" {
		text += indented("Open this page: "+o.paint(underline, URL(e.GetUrl()))+"\n", toolIndent)
	}
	return text
}

// URL is an address on one line in ASCII: letters that look like others are seen for what they are.
func URL(address string) string {
	address, cut := prefix(address, maxURL)
	var b strings.Builder
	for _, r := range address {
		if r > ' ' && r < 0x7f {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, `\u{%x}`, r)
		}
	}
	if cut {
		b.WriteString(" (cut)")
	}
	return b.String()
}

// commandOf is the command in a tool's input, in the ways that agents write it.
func commandOf(raw string) string {
	if len(raw) == 0 || len(raw) > maxText {
		return ""
	}
	var input struct {
		Command jsontext.Value `json:"command"`
		Cmd     jsontext.Value `json:"cmd"`
		Args    []string       `json:"args"`
	}
	// A strict reading would refuse what another reader takes: this is for the eye alone.
	if json.Unmarshal([]byte(raw), &input, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) != nil {
		return ""
	}
	value := input.Command
	if len(value) == 0 {
		value = input.Cmd
	}
	var text string
	if json.Unmarshal(value, &text) == nil {
		if len(input.Args) > 0 {
			text += " " + strings.Join(input.Args, " ")
		}
		return text
	}
	var words []string
	if json.Unmarshal(value, &words) == nil {
		return strings.Join(words, " ")
	}
	return ""
}

// Answer is how a question ended, on one line: "allowed (Allow once) by cli". options may be nil.
func Answer(a *supervisorv1.ApprovalAnswer, options []*supervisorv1.PermissionOption) string {
	text := CleanLine(a.GetOutcome())
	if a.GetOutcome() == "expired" {
		text = "nobody answered"
	}
	for _, op := range options {
		if op.GetOptionId() == a.GetOptionId() && a.GetOptionId() != "" {
			text += " (" + CleanLine(op.GetName()) + ")"
		}
	}
	switch by := a.GetAnsweredBy(); by {
	case "nobody", "":
	case "front":
		text += " in the editor"
	case "policy":
		text += " by the policy"
	default:
		text += " by " + CleanLine(by)
	}
	return text
}
