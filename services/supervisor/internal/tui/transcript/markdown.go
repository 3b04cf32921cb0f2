package transcript

import (
	"bufio"
	"io"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// PageOptions configure a page.
type PageOptions struct {
	// History includes events that the agent repeated while it loaded the session, marked as such.
	History bool
	// Decisions are the decisions of the policy in the session, oldest first. Each is shown with its item.
	Decisions []Decision
}

// Page writes a page while a journal is read. It is not safe for concurrent use.
type Page struct {
	story *story
	w     *bufio.Writer
	foot  string
}

// Write writes an entry, or holds it back until its result is known.
func (p *Page) Write(t Entry) error { return p.story.addEntry(t) }

// Close writes entries that were held back, and the end of the page.
func (p *Page) Close() error {
	if err := p.story.close(); err != nil {
		return err
	}
	if _, err := p.w.WriteString(p.foot); err != nil {
		return err
	}
	return p.w.Flush()
}

// NewMarkdown begins a Markdown page. Messages are quoted, so that they cannot imitate other content. Pictures that a
// viewer would load, HTML, and links other than to pages and mail addresses are shown as source text.
func NewMarkdown(w io.Writer, s *Summary, o PageOptions) (*Page, error) {
	m := &markdownWriter{w: bufio.NewWriterSize(w, 64<<10)}
	m.print("# " + plain(s.heading()) + "\n\n")
	for _, f := range s.fields() {
		value := plain(f.Value)
		if f.Code {
			value = code(f.Value)
		}
		m.print("- " + f.Name + ": " + value + "\n")
	}
	m.contents(s.chapters(o))
	return &Page{story: newStory(s.Header.Cwd, o, m.item), w: m.w}, m.err
}

// markdownWriter writes items as Markdown.
type markdownWriter struct {
	w    *bufio.Writer
	err  error // the first error
	list bool  // the last item is in a list
}

var markdownMarks = map[mark]string{markOpen: "◐ ", markGood: "✓ ", markBad: "✗ ", markWarn: "! "}

var speakers = map[kind]string{kindUser: "You", kindAgent: "Agent", kindThought: "Thought", kindSummary: "Summary"}

func (m *markdownWriter) item(it *item) error {
	again := ""
	if it.History {
		again = " (told again)"
	}
	switch it.Kind {
	case kindTurn:
		m.print("\n## " + plain(it.Title) + "\n\n*" + stamp(it.Time) + "*\n")
	case kindUser, kindAgent, kindThought, kindSummary:
		if !it.Goes {
			m.print("\n**" + speakers[it.Kind] + "**" + again + "\n")
		}
		m.print("\n" + quoted(it.Said))
	case kindPlan:
		m.print("\n**" + plain(it.Title) + "**" + again + "\n")
		for _, p := range it.Parts {
			m.part(p, "")
		}
	case kindEnd:
		m.print("\n*" + plain(it.Title) + "*")
		if it.Status != "" {
			m.print("  \n" + plain(it.Status))
		}
		m.print("\n")
		if it.Said != "" {
			m.print("\n" + quoted(it.Said))
		}
	default:
		m.entry(it, again)
		if it.Said != "" {
			m.print("\n" + fenced(safetext.Text(it.Said), "", "  "))
		}
		m.parts(it)
	}
	return m.err
}

func (m *markdownWriter) print(text string) {
	m.list = false
	if m.err == nil {
		_, m.err = m.w.WriteString(text)
	}
}

// contents writes the table of contents.
func (m *markdownWriter) contents(chapters []chapter) {
	if len(chapters) == 0 {
		return
	}
	m.print("\n## Contents\n\n")
	for _, c := range chapters {
		text := ""
		if c.Turn != "" {
			text = "[" + c.Turn + "](#" + anchor(c.Turn) + ") "
		}
		if c.Title != "" {
			text += plain(c.Title) + " "
		}
		m.print("- " + text + "(" + c.With + ")\n")
	}
}

// entry begins an item of a list.
func (m *markdownWriter) entry(it *item, again string) {
	text := code(it.Title) + bracketed(it.Tool, it.Status)
	switch it.Kind {
	case kindNote, kindLost, kindDecision:
		text = plain(it.Title)
	case kindCommand:
		text = "`$` " + text
	}
	if !m.list {
		m.print("\n")
	}
	goes := ""
	if it.Goes {
		goes = " (goes on)"
	}
	m.print("- " + markdownMarks[it.Mark] + text + again + goes + ", " + clock(it.Time) + ruled(it.Rule) + "\n")
	m.list = true
}

// parts writes the content of an item. It writes raw input and output only if there is no other content.
func (m *markdownWriter) parts(it *item) {
	found := false
	for _, p := range it.Parts {
		if p.Kind == partRaw && found {
			continue
		}
		found = found || p.Kind != partPlaces
		m.part(p, "  ")
	}
}

func (m *markdownWriter) part(p part, indent string) {
	switch p.Kind {
	case partPlan:
		m.print("\n")
		for _, s := range p.Steps {
			box, high := "[ ]", ""
			switch s.Status {
			case "completed":
				box = "[x]"
			case "in_progress":
				high = " *(in progress)*"
			}
			if s.High {
				high += " *(high)*"
			}
			m.print(indent + "- " + box + " " + plain(s.Text) + high + "\n")
		}
		if p.Text != "" {
			m.print(indent + "- " + plain(p.Text) + "\n")
		}
	case partPlaces:
		var places []string
		for _, l := range strings.Split(p.Text, "\n") {
			places = append(places, code(l))
		}
		m.print("\n" + indent + strings.Join(places, ", ") + "\n")
	case partDiff:
		m.print("\n" + indent + code(p.Title) + plainly(p) + "\n")
		if p.Text != "" {
			m.print("\n" + indent + plain(p.Text) + "\n")
			return
		}
		var b strings.Builder
		for _, l := range p.Lines {
			if l.Sign == '@' {
				b.WriteString("@@ " + l.Text + " @@\n")
			} else {
				b.WriteString(string(l.Sign) + strings.ReplaceAll(l.Text, "\r", `\u{d}`) + "\n")
			}
		}
		m.print("\n" + fenced(safetext.Text(b.String()), "diff", indent))
	case partOutput:
		if p.Title != "" {
			m.print("\n" + indent + "`$` " + code(p.Title) + bracketed(p.Status) + ruled(p.Rule) + "\n")
		} else if p.Status != "" {
			m.print("\n" + indent + plain(p.Status) + "\n")
		}
		if p.Text != "" {
			m.print("\n" + fenced(p.Text, "", indent))
		}
	case partRaw:
		m.print("\n" + indent + plain(p.Title) + "\n\n" + fenced(indentedJSON(p.Text), "json", indent))
	default:
		m.print("\n" + fenced(safetext.Text(p.Text), "", indent))
	}
}

// ruled formats the rule of a decision.
func ruled(rule string) string {
	if rule == "" {
		return ""
	}
	return "; " + plain(rule)
}

// plainly describes a diff beside its path.
func plainly(p part) string {
	text := ""
	if p.Status != "" {
		text = " (" + p.Status + ")"
	}
	if p.Added+p.Removed > 0 {
		text += " +" + counter(p.Added) + " -" + counter(p.Removed)
	}
	return text
}

// loads matches syntax that a Markdown viewer would load or interpret.
var loads = lazyregexp.New(`<|!\[|\]\s*:`)

func escaped(text string) string {
	return loads.ReplaceAllStringFunc(text, func(s string) string {
		switch s {
		case "<":
			return "&lt;"
		case "![":
			return `!\[`
		}
		return `\` + s
	})
}

// plain returns text on one line without Markdown syntax.
func plain(text string) string {
	var b strings.Builder
	for _, c := range safetext.Line(text) {
		switch c {
		case '\\', '`', '*', '_', '[', ']', '<', '>', '#', '|', '~', '!', '&', '$':
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

// quoted returns a message as a quote. Code blocks are unchanged, so that they can be copied, if every viewer
// interprets them as code.
func quoted(text string) string {
	var b strings.Builder
	var f fences
	for _, l := range strings.Split(strings.Trim(safetext.Text(text), "\n"), "\n") {
		if !f.code(l) {
			l = disableLinks(escaped(l))
		}
		b.WriteString(strings.TrimRight("> "+l, " ") + "\n")
	}
	return b.String()
}

// fences finds the code blocks of a text: only those whose fences are unambiguous, because text that some viewer does
// not interpret as code must be escaped.
type fences struct {
	open  string // the open fence
	doubt bool   // the rest of the text is ambiguous

	// An indented fence may be open: if it belongs to a list, it ends with the list, and otherwise it continues. Both
	// are equal if all lines up to its end are indented as much.
	inner, indent string
}

// code reports whether a line is in a code block.
func (f *fences) code(line string) bool {
	text := strings.Trim(line, " \t")
	run := fenceRun(text)
	indent := line[:len(line)-len(strings.TrimLeft(line, " \t"))]
	switch {
	case f.doubt:
	case f.open != "":
		return f.within(run, text, indent)
	case f.inner != "":
		f.withinInner(line, run, text, indent)
	case run == "" || run[0] == '`' && strings.Contains(text[len(run):], "`"):
	case indent == "":
		f.open = run
	default:
		f.inner, f.indent = run, indent
	}
	return false
}

func (f *fences) within(run, text, indent string) (code bool) {
	switch {
	case run == "" || run[0] != f.open[0] || len(run) < len(f.open) || run != text:
		return true
	case indent == "":
		f.open = ""
	default: // viewers differ about the indent of a closing fence
		f.doubt = true
	}
	return false
}

func (f *fences) withinInner(line, run, text, indent string) {
	switch {
	case text == "":
	case !strings.HasPrefix(line, f.indent), run != "" && indent != f.indent:
		f.doubt = true
	case run != "" && run == text && run[0] == f.inner[0] && len(run) >= len(f.inner):
		f.inner = ""
	}
}

// fenceRun returns the fence at the beginning of text, or "".
func fenceRun(text string) string {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return ""
	}
	if run := text[:len(text)-len(strings.TrimLeft(text, text[:1]))]; len(run) >= 3 {
		return run
	}
	return ""
}

// code returns a code span on one line.
func code(text string) string {
	text = safetext.Line(text)
	if text == "" {
		return "(none)"
	}
	ticks := markdown.Ticks(text, 1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return ticks + text + ticks
}

// fenced returns a code block. text is already escaped.
func fenced(text, language, indent string) string {
	fence := markdown.Ticks(text, 3)
	var b strings.Builder
	b.WriteString(indent + fence + language + "\n")
	for _, l := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		b.WriteString(indent + l + "\n")
	}
	b.WriteString(indent + fence + "\n")
	return b.String()
}

func bracketed(parts ...string) string {
	var some []string
	for _, p := range parts {
		if p != "" {
			some = append(some, plain(p))
		}
	}
	if len(some) == 0 {
		return ""
	}
	return " (" + strings.Join(some, ", ") + ")"
}
