package render

import (
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of the text of a message that is held back until its meaning is known, in bytes.
const (
	maxHeldLine  = 4 << 10
	maxHeldTable = 16 << 10
)

// markdownWriter shows Markdown while it arrives. Output is never taken back, so it holds back only ambiguous text: the
// first characters of a line, a word, a span until it is closed, a table until its end.
type markdownWriter struct {
	o     Options
	clean safetext.Cleaner
	w     wrapper
	spans markdown.Spans
	style style  // current style
	buf   string // safe text that is not shown yet

	within bool // the beginning of the current line was shown
	fence  *fence
	table  []string
	tabled int // bytes in table
}

// fence is an open code block.
type fence struct {
	markdown.Fence
	code   highlighter
	within bool // the current line was shortened
}

func newMarkdown(o Options) *markdownWriter {
	m := &markdownWriter{o: o, w: wrapper{o: o}}
	m.spans.W = m
	return m
}

// add returns the text that can be shown after another piece of the message.
func (m *markdownWriter) add(text string) string {
	m.buf += m.clean.Add(text)
	m.advance(false)
	return m.w.taken()
}

// end ends the message, and returns the text that was held back, with a line feed if a line is open.
func (m *markdownWriter) end() string {
	m.buf += m.clean.End()
	m.advance(true)
	m.endTable()
	if m.within {
		m.endLine()
	}
	m.fence = nil
	return m.w.taken()
}

func (m *markdownWriter) advance(last bool) {
	for m.buf != "" {
		size, within := len(m.buf), m.within
		switch {
		case m.fence != nil:
			m.codeLine(last)
		case m.within:
			m.rest(last)
		default:
			m.begin(last)
		}
		if len(m.buf) == size && m.within == within {
			return // more text is needed
		}
	}
}

var quotes = lazyregexp.New(`^(?: {0,3}> ?)+`)

// begin processes the beginning of a line after its meaning is known.
func (m *markdownWriter) begin(last bool) {
	line, _, whole := strings.Cut(m.buf, "\n")
	whole = whole || last
	if !whole && len(line) < maxHeldLine && undecided(line) {
		return
	}
	switch {
	case strings.HasPrefix(strings.TrimLeft(line, " "), "|") && whole || m.table != nil && whole && strings.Contains(line, "|"):
		m.tableRow(line)
		return
	}
	m.endTable()
	if whole {
		if f, ok := markdown.FenceOf(line); ok {
			m.fence = &fence{Fence: f, code: newHighlighter(m.o, f.Info)}
			m.take(line)
			return
		}
		if markdown.IsRule(line) {
			m.w.line(m.o.paint(dim, strings.Repeat("─", min(max(m.o.Width, 3), 40))))
			m.take(line)
			return
		}
		if strings.TrimSpace(line) == "" {
			m.w.newline()
			m.take(line)
			return
		}
	}
	m.style, m.within = normal, true
	m.spans.Begin()
	first, hang := "", ""
	taken := 0
	if q := quotes.FindString(line); q != "" {
		bar := strings.Repeat(m.o.paint(dim, "│")+" ", min(strings.Count(q, ">"), 8))
		first, hang, m.style = bar, bar, dim
		taken = len(q)
	}
	if level, size := markdown.HeadingOf(line[taken:]); level > 0 {
		m.style = bold | cyan
		if level == 1 {
			m.style |= underline
		}
		taken += size
	} else if it, ok := markdown.ItemOf(line[taken:]); ok {
		mark := it.Mark
		switch {
		case it.Box != 0:
			mark = string(it.Box)
		case !it.Ordered():
			mark = "•"
		}
		indent := indentOf(it.Indent)
		first += indent + m.o.paint(cyan, mark) + " "
		hang += indent + strings.Repeat(" ", safetext.Width(mark)+1)
		taken += it.Size
	} else {
		white := len(line) - taken - len(strings.TrimLeft(line[taken:], " \t"))
		indent := indentOf(line[taken : taken+white])
		first, hang = first+indent, hang+indent
		taken += white
	}
	m.buf = m.buf[taken:]
	m.w.prefixed(first, hang)
	if m.buf == "" {
		if last {
			m.endLine()
		}
		return
	}
	if m.buf[0] == '\n' { // a mark without text
		m.rest(last)
	}
}

// indentOf returns the indent that is shown for white space at the beginning of a line.
func indentOf(white string) string {
	return strings.Repeat(" ", min(len(strings.ReplaceAll(white, "\t", "    ")), 24))
}

// undecided reports whether the beginning of a line may still become another element.
func undecided(line string) bool {
	t := strings.TrimLeft(line, " \t>")
	if t == "" {
		return true
	}
	switch c := t[0]; {
	case c == '#', c == '-', c == '+', c == '*', c == '_':
		if c == '#' {
			return strings.Trim(strings.TrimLeft(t, "#"), " \t") == ""
		}
		if strings.Trim(t, t[:1]+" \t") == "" {
			return true // a rule, or a mark
		}
		_, item := markdown.ItemOf(t)
		return item && len(t) < 8 && strings.HasPrefix(strings.TrimLeft(t[1:], " \t"), "[")
	case c >= '0' && c <= '9':
		rest := strings.TrimLeft(t, "0123456789")
		return rest == "" || strings.Trim(rest, ".) \t") == "" && len(rest) < 3
	case c == '`' || c == '~':
		return strings.HasPrefix(t, strings.Repeat(t[:1], 3)) || strings.Trim(t, t[:1]) == ""
	case c == '|':
		return true
	}
	return false
}

// take removes a line that was processed.
func (m *markdownWriter) take(line string) {
	m.buf = m.buf[min(len(line)+1, len(m.buf)):]
}

// rest processes more text of the current line.
func (m *markdownWriter) rest(last bool) {
	line, _, whole := strings.Cut(m.buf, "\n")
	n := m.spans.Read(line, whole || last)
	m.buf = m.buf[n:]
	if whole && n == len(line) {
		m.buf = m.buf[1:]
		m.endLine()
	}
}

func (m *markdownWriter) endLine() {
	m.w.newline()
	m.within = false
}

// codeLine processes a line of code.
func (m *markdownWriter) codeLine(last bool) {
	line, _, whole := strings.Cut(m.buf, "\n")
	if !whole && !last && len(line) < maxHeldLine {
		return
	}
	if !m.fence.within && m.fence.EndedBy(line) {
		m.fence = nil
		m.take(line)
		return
	}
	code := m.fence.Code(line)
	m.buf = m.buf[len(line)-len(code):]
	line = code
	shown, _ := safetext.Prefix(line, maxHeldLine)
	begin := "  "
	if m.fence.within {
		begin = ""
	}
	m.w.out.WriteString(begin + m.fence.code.line(strings.ReplaceAll(shown, "\t", "    ")))
	if len(shown) < len(line) || !whole && !last {
		m.fence.within = true
		m.buf = m.buf[len(shown):]
		return
	}
	m.fence.within = false
	m.w.out.WriteByte('\n')
	m.take(line)
}

// Text implements markdown.Writer.
func (m *markdownWriter) Text(text string) {
	m.w.text(m.style, strings.ReplaceAll(text, "\t", "    "))
}

// Code implements markdown.Writer.
func (m *markdownWriter) Code(code string) { m.in(m.style&^dim|cyan, func() { m.Text(code) }) }

// Emphasis implements markdown.Writer.
func (m *markdownWriter) Emphasis(e markdown.Emphasis, within func()) {
	s := m.style
	for mark, more := range map[markdown.Emphasis]style{markdown.Italic: italic, markdown.Bold: bold, markdown.Struck: strike} {
		if e&mark != 0 {
			s |= more
		}
	}
	m.in(s, within)
}

// Link implements markdown.Writer. It always shows the address, so that the user sees the target.
func (m *markdownWriter) Link(picture bool, text, address string, within func()) {
	if picture {
		m.in(m.style|dim, func() { m.Text("image: ") })
	}
	if text == "" || text == address {
		m.in(m.style|underline, func() { m.Text(address) })
		return
	}
	m.in(m.style|underline, within)
	m.in(m.style|dim, func() { m.Text(" (" + address + ")") })
}

// in calls write with another style.
func (m *markdownWriter) in(s style, write func()) {
	before := m.style
	m.style = s
	write()
	m.style = before
}
