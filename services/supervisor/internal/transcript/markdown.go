package transcript

import (
	"bufio"
	"io"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/services/supervisor/internal/markdown"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// PageOptions say what is on a page.
type PageOptions struct {
	// History: what the agent told again when it loaded the session is there too, marked as such.
	History bool
	// Decisions are what the policy decided in the session, oldest first: each is shown with what it is about.
	Decisions []Decision
}

// Page is written as a journal is read. Not safe for concurrent use.
type Page struct {
	story *story
	w     *bufio.Writer
	foot  string
}

// Tell writes one thing, or holds it until it is known what comes of it.
func (p *Page) Tell(t Entry) error { return p.story.tell(t) }

// Close writes what is held, and the end of the page.
func (p *Page) Close() error {
	if err := p.story.close(); err != nil {
		return err
	}
	if _, err := p.w.WriteString(p.foot); err != nil {
		return err
	}
	return p.w.Flush()
}

// NewMarkdown begins a page of Markdown. What was said stands in quotes, so that it cannot pass for more than that;
// pictures that a viewer would load, HTML, and links to anything but pages and mail addresses are shown as they are written.
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
	err  error // the first
	list bool  // the last item stands in a list
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

// parts writes what an item shows. What went in and came out raw is of interest where nothing else is.
func (m *markdownWriter) parts(it *item) {
	told := false
	for _, p := range it.Parts {
		if p.Kind == partRaw && told {
			continue
		}
		told = told || p.Kind != partPlaces
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

// ruled is the rule by which something was decided, behind it.
func ruled(rule string) string {
	if rule == "" {
		return ""
	}
	return "; " + plain(rule)
}

// plainly is what a diff's head says beside the path.
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

// loads is what a viewer of Markdown would load or obey.
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

// plain is text on one line that means nothing in Markdown.
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

// quoted is what was said, in quotes. Code stands as it is, so that it can be copied, where every viewer agrees that it is
// code.
func quoted(text string) string {
	var b strings.Builder
	var f fences
	for _, l := range strings.Split(strings.Trim(safetext.Text(text), "\n"), "\n") {
		if !f.code(l) {
			l = unlinked(escaped(l))
		}
		b.WriteString(strings.TrimRight("> "+l, " ") + "\n")
	}
	return b.String()
}

// fences finds the blocks of code in a text: only those whose fences cannot be taken for anything else, since what a viewer
// takes for no code must not be left as it is.
type fences struct {
	open  string // the fence that is open
	doubt bool   // nothing behind is trusted

	// A fence that is further in may be open: it is a list's, and ends with it, or not, and goes on. Which it is does not
	// matter where all lines up to its end are as far in.
	inner, indent string
}

// code reports whether a line is within a block.
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
	default: // how far in a fence may be to end a block, viewers may not agree on
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

// fenceRun is the fence that text begins with; empty: none.
func fenceRun(text string) string {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return ""
	}
	if run := text[:len(text)-len(strings.TrimLeft(text, text[:1]))]; len(run) >= 3 {
		return run
	}
	return ""
}

// code is a span of code on one line.
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

// fenced is a block of code; text is harmless already.
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
