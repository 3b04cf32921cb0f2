package render

import (
	"cmp"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of a question.
const (
	// askedBecause introduces the reason, as in the content of acphost's own questions.
	askedBecause = "Asked because: "

	maxMessage = 4 << 10
	maxURL     = 2 << 10
	maxRaw     = 600
)

// Question formats a question for a user: the action, the command or the change, the places, and the reason; or the
// subject of a form or a page. It consists of whole lines, without the possible answers. Its mark is in reverse video,
// which the text of agents never has.
//
// Unseen returns the amount of omitted text, which the marks in the text do not contain.
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

// HasDetail reports whether Whole shows more about why a question is asked than Question. A person can decide without
// it.
func HasDetail(a *supervisorv1.Approval) bool { return a.GetPermission().GetDetail() != "" }

// Whole is Question without bounds: all of the action that would be allowed, and the detail of the reason for the
// question. The part that may be long precedes the question's last lines.
func Whole(o Options, a *supervisorv1.Approval) string {
	o.view = &view{whole: true}
	return Question(o, a)
}

// Hidden is the amount of a question that is not shown.
type Hidden struct {
	Lines      int
	Characters int // of lines that are shown in part
	Members    int // members of a tool's input that do not affect the action; informative only
}

// Any reports whether lines or characters are not shown.
func (h Hidden) Any() bool { return h.Lines > 0 || h.Characters > 0 }

// Withholds reports whether an answer by this option has to wait until the user has seen Whole: an option of any kind
// that does not reject, while lines or characters are hidden. nil stands for accepting a form or a page.
func (h Hidden) Withholds(o *supervisorv1.PermissionOption) bool { return h.Any() && !Rejects(o) }

// Rejects reports whether an option only rejects.
func Rejects(o *supervisorv1.PermissionOption) bool { return strings.HasPrefix(o.GetKind(), "reject_") }

// Count describes the hidden amount, with a word before each noun, which may be empty: "3 more lines and 20 more
// characters".
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

// Unseen returns the amount that Question omits or shortens.
func Unseen(o Options, a *supervisorv1.Approval) Hidden {
	o.view = &view{}
	_ = Question(o, a)
	return o.view.hidden
}

// view controls and counts the omitted parts of a question.
type view struct {
	whole  bool   // show everything
	hidden Hidden // the amount that is not shown
}

func (o Options) whole() bool { return o.view != nil && o.view.whole }

// hide counts omitted lines and characters.
func (o Options) hide(lines, characters int) {
	if o.view != nil {
		o.view.hidden.Lines += lines
		o.view.hidden.Characters += characters
	}
}

// hideText counts an omitted text: the rest of a line, and the lines after it.
func (o Options) hideText(text string) {
	if lines := strings.Count(strings.TrimSuffix(text, "\n"), "\n"); lines > 0 {
		o.hide(lines, 0)
	} else {
		o.hide(0, utf8.RuneCountInString(text))
	}
}

// shortened limits a line to a number of bytes, unless everything is shown. It keeps the beginning and the end of a
// longer line.
func (o Options) shortened(text string, limit int) string {
	if len(text) <= limit || o.whole() {
		return text
	}
	head, _ := safetext.Prefix(text, limit*3/4)
	tail := text[len(text)-limit/4:]
	for range utf8.UTFMax - 1 {
		if !utf8.RuneStart(tail[0]) {
			tail = tail[1:]
		}
	}
	hidden := utf8.RuneCountInString(text[len(head) : len(text)-len(tail)])
	o.hide(0, hidden)
	return head + " " + o.left(safetext.Count(hidden, "character")) + " … " + tail
}

// left returns the mark for omitted text. The amount is shown in the mark, or once below the question.
func (o Options) left(count string) string {
	if o.view != nil {
		return "…"
	}
	return "… " + count
}

// line formats text on one line with a limit of bytes, unless everything is shown.
func (o Options) line(text string, limit int) string {
	text = o.shortened(text, limit)
	const longest = 10 // characters of the longest escape
	return safetext.LineOf(text, longest*utf8.RuneCountInString(text))
}

// question formats a question. It omits content for which seen returns true.
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

// QuestionTitle returns the first line of a question that is shown completely. The title of an agent's question is not
// authoritative; it may contradict the command below.
func QuestionTitle(a *supervisorv1.Approval) string {
	switch {
	case a.GetElicitation() != nil:
		return QuestionSubject(a)
	case a.GetPermission().GetFromAcphost():
		return QuestionSubject(a)
	}
	return "The agent asks: " + titleOf(a.GetPermission())
}

// QuestionSubject returns the subject of a question on one line, for output without its details. It is the command if
// there is one, because the answer applies to the command and not to the agent's title.
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
		lines = append(lines, "") // the code begins on a new line
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

// URL formats an address on one line in ASCII, so that look-alike letters are recognized.
func URL(address string) string {
	address, cut := safetext.Prefix(address, maxURL)
	address = safetext.ASCII(address)
	if cut {
		address += " (cut)"
	}
	return address
}

// url is URL with a limit, unless everything is shown.
func (o Options) url(address string) string {
	if len(address) > maxURL {
		if o.whole() {
			return safetext.ASCII(address)
		}
		o.hideText(address[maxURL:])
	}
	return URL(address)
}

// Answer describes the end of a question on one line: "allowed (Allow once) by cli". options may be nil.
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
