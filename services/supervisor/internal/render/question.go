package render

import (
	"cmp"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// Bounds of a question.
const (
	// askedBecause introduces the reason, as in the content of acphost's own questions.
	askedBecause = "Asked because: "

	maxMessage = 4 << 10
	maxURL     = 2 << 10
	maxRaw     = 600
)

// Question is a question as a person should see it before answering: what would be done, why it is asked, the command or the change, the
// places; or what a form or a page is about. Whole lines, without the answers that there are. Its mark
// is in reverse video, which nothing that an agent says is ever shown in.
//
// Unseen tells how much is left out: the marks within do not.
func Question(o Options, a *supervisorv1.Approval) string {
	if o.view == nil {
		o.view = &view{}
	}
	return question(o, a, func(*supervisorv1.ToolCallContent) bool { return false })
}

// Reason is why a question is asked, in a whole line as in Question.
func Reason(o Options, a *supervisorv1.Approval) string {
	return indented(o.paint(yellow, askedBecause+o.line(a.GetPermission().GetReason(), maxRaw))+"\n", toolIndent)
}

// HasDetail reports whether Whole shows more about why a question is asked than Question. A person can decide without it.
func HasDetail(a *supervisorv1.Approval) bool { return a.GetPermission().GetDetail() != "" }

// Whole is Question without bounds: all of what would be allowed, and the detail of why it is asked. What may be long stands there to be read above what it is
// asked by.
func Whole(o Options, a *supervisorv1.Approval) string {
	o.view = &view{whole: true}
	return Question(o, a)
}

// Hidden is how much of a question is not shown.
type Hidden struct {
	Lines      int
	Characters int // of lines that are shown in part
	Members    int // of a tool's input that change nothing of what is done; they do not count
}

// Any reports whether lines or characters are not shown.
func (h Hidden) Any() bool { return h.Lines > 0 || h.Characters > 0 }

// Count says how much is hidden, with a word before each noun, which may be empty: "3 more lines and 20 more characters".
func (h Hidden) Count(word string) string {
	var parts []string
	if h.Lines > 0 {
		parts = append(parts, safetext.Count(h.Lines, word+"line"))
	}
	if h.Characters > 0 {
		parts = append(parts, safetext.Count(h.Characters, word+"character"))
	}
	return strings.Join(parts, " and ")
}

// Unseen is what Question leaves out, or cuts.
func Unseen(o Options, a *supervisorv1.Approval) Hidden {
	o.view = &view{}
	_ = Question(o, a)
	return o.view.hidden
}

// view is how much is shown of a question.
type view struct {
	whole  bool   // all of it
	hidden Hidden // what is not
}

func (o Options) whole() bool { return o.view != nil && o.view.whole }

// hide counts what is not shown.
func (o Options) hide(lines, characters int) {
	if o.view != nil {
		o.view.hidden.Lines += lines
		o.view.hidden.Characters += characters
	}
}

// hideText counts a text that is not shown: the rest of a line, and the lines behind it.
func (o Options) hideText(text string) {
	if lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n"); lines > 0 {
		o.hide(lines, 0)
	} else {
		o.hide(0, utf8.RuneCountInString(text))
	}
}

// shortened is a line of at most so many bytes, or all of it. Of a longer line, the beginning and the end are shown.
func (o Options) shortened(text string, most int) string {
	if len(text) <= most || o.whole() {
		return text
	}
	head, _ := safetext.Prefix(text, most*3/4)
	tail := text[len(text)-most/4:]
	for range utf8.UTFMax - 1 {
		if !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	hidden := utf8.RuneCountInString(text[len(head) : len(text)-len(tail)])
	o.hide(0, hidden)
	return head + " " + o.left(safetext.Count(hidden, "character")) + " … " + tail
}

// left is the mark where something is left out. How much that is stands here, or below the question for all of it.
func (o Options) left(count string) string {
	if o.view != nil {
		return "…"
	}
	return "… " + count
}

// line is text on one line of at most so many bytes, or all of it.
func (o Options) line(text string, most int) string {
	text = o.shortened(text, most)
	const longest = 10 // characters of an escape
	return safetext.LineOf(text, longest*utf8.RuneCountInString(text))
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
	if p.GetReason() != "" {
		body.WriteString(o.paint(yellow, askedBecause+o.line(p.GetReason(), maxRaw)) + "\n")
	}
	if title := p.GetTitle(); utf8.RuneCountInString(title) > safetext.MaxLine {
		if o.whole() {
			body.WriteString(safetext.Text(title) + "\n")
		}
		o.hide(0, utf8.RuneCountInString(title)-safetext.MaxLine)
	}
	in, readable := inputOf(p.GetRawInput())
	shown := in.command != ""
	if shown {
		lines := strings.Split(in.command, "\n")
		for i, l := range lines {
			lines[i] = o.codeLine(l)
		}
		body.WriteString(o.paint(bold, "$ ") + strings.TrimSuffix(bounded(o, lines, maxDiffLines), "\n") + "\n")
		body.WriteString(bounded(o, in.places(o), maxMembers))
	}
	for _, item := range p.GetContent() {
		if seen(item) {
			shown = true
			continue
		}
		if p.GetFromAcphost() && p.GetReason() != "" && item.GetContent().GetText().GetText() == askedBecause+p.GetReason() {
			continue // it is shown already
		}
		text := toolContent(o, item, "completed")
		shown = shown || text != ""
		body.WriteString(text)
	}
	body.WriteString(besides(o, p, in, shown))
	if (!shown || !readable || o.whole()) && p.GetRawInput() != "" && p.GetRawInput() != "{}" {
		body.WriteString(o.paint(dim, "input: "+o.line(p.GetRawInput(), maxRaw)) + "\n")
	}
	if p.GetDetail() != "" && o.whole() {
		body.WriteString(o.paint(dim, "Details: "+o.line(p.GetDetail(), maxRaw)) + "\n")
	}
	b.WriteString(indented(body.String(), toolIndent))
	return b.String()
}

// QuestionTitle is the first line of a question that is shown in full. The title of the agent's own question is in its
// words, which may contradict the command that is shown below.
func QuestionTitle(a *supervisorv1.Approval) string {
	switch {
	case a.GetElicitation() != nil:
		return QuestionSubject(a)
	case a.GetPermission().GetFromAcphost():
		return QuestionSubject(a)
	}
	return "The agent asks: " + titleOf(a.GetPermission())
}

// QuestionSubject is what a question is about, on one line, where nothing else of it is shown: its command, if it has
// one, since the answer holds for the command and not for the agent's title.
func QuestionSubject(a *supervisorv1.Approval) string {
	if e := a.GetElicitation(); e != nil {
		return cmp.Or(safetext.Line(e.GetMessage()), "the agent wants to know something")
	}
	p := a.GetPermission()
	if in, _ := inputOf(p.GetRawInput()); strings.TrimSpace(in.command) != "" {
		return "$ " + safetext.Line(in.command)
	}
	return titleOf(p)
}

func titleOf(p *supervisorv1.PermissionQuestion) string {
	return cmp.Or(safetext.Line(p.GetTitle()), safetext.Line(p.GetKind()), "an action of the agent's")
}

func elicitation(o Options, e *supervisorv1.Elicitation) string {
	all := strings.TrimSpace(e.GetMessage())
	message := all
	if !o.whole() {
		message, _ = safetext.Prefix(all, maxMessage)
	}
	rows := o.rows(message)
	var lines []string
	if len(rows) > 0 && rows[0].code != nil {
		lines = append(lines, "") // the code begins on a line of its own
	}
	for _, l := range rows {
		clean := safetext.Text(l.text)
		if l.code != nil {
			clean = l.code.row(strings.ReplaceAll(clean, "\t", "    "))
		}
		lines = append(lines, clean)
	}
	if strings.TrimSpace(strings.Join(lines, "")) == "" {
		lines = []string{"the agent wants to know something"}
	}
	if len(message) < len(all) {
		o.hideText(all[len(message):])
		lines[len(lines)-1] += "…"
	}
	text := o.paint(bold, strings.TrimSpace("The agent asks: "+lines[0])) + "\n" + indented(strings.Join(lines[1:], "\n"), toolIndent)
	if e.GetMode() == "url" {
		text += indented("Open this page: "+o.paint(underline, o.url(e.GetUrl()))+"\n", toolIndent)
	}
	return text
}

// URL is an address on one line in ASCII: letters that look like others are seen for what they are.
func URL(address string) string {
	address, cut := safetext.Prefix(address, maxURL)
	address = safetext.ASCII(address)
	if cut {
		address += " (cut)"
	}
	return address
}

// url is URL, or all of it.
func (o Options) url(address string) string {
	if len(address) > maxURL {
		if o.whole() {
			return safetext.ASCII(address)
		}
		o.hideText(address[maxURL:])
	}
	return URL(address)
}

// Answer is how a question ended, on one line: "allowed (Allow once) by cli". options may be nil.
func Answer(a *supervisorv1.ApprovalAnswer, options []*supervisorv1.PermissionOption) string {
	text := safetext.Line(a.GetOutcome())
	if a.GetOutcome() == "expired" {
		text = "no user answered"
	}
	for _, op := range options {
		if op.GetOptionId() == a.GetOptionId() && a.GetOptionId() != "" {
			text += " (" + safetext.Line(op.GetName()) + ")"
		}
	}
	switch by := a.GetAnsweredBy(); by {
	case "nobody":
		if a.GetOutcome() == "allowed" {
			text += ", because no user answered"
		}
	case "":
	case "front":
		text += " in the editor"
	case "policy":
		text += " by the policy"
	default:
		text += " by " + safetext.Line(by)
	}
	return text
}
