package render

import (
	"regexp"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// How much of a message is held back until it is known what it is, in bytes.
const (
	maxHeldLine  = 4 << 10
	maxHeldTable = 16 << 10
)

// Markdown is a whole message for a terminal. What it holds beside Markdown is made harmless.
func Markdown(o Options, text string) string {
	m := newMarkdown(o)
	return m.add(text) + m.end()
}

// markdown shows Markdown as it comes. What was shown is never taken back, so that only what is not clear yet is held: a
// line's first characters, a word, a span until it is closed, a table until its end.
type markdown struct {
	o     Options
	clean safetext.Cleaner
	w     wrapper
	buf   string // clean, not shown yet

	within bool  // in a line whose beginning was shown
	base   style // of that line
	prev   rune  // the last character of that line
	fence  *fence
	table  []string
	tabled int // bytes in table
}

// fence is a block of code that is open.
type fence struct {
	mark   byte
	length int
	indent int
	code   highlighter
	within bool // a line was cut
}

func newMarkdown(o Options) *markdown { return &markdown{o: o, w: wrapper{o: o}} }

// add returns what can be shown of a piece of text and of what was held back before it.
func (m *markdown) add(text string) string {
	m.buf += m.clean.Add(text)
	m.advance(false)
	return m.w.taken()
}

// end returns what was held back. The message is over, and its last line ended if there was one.
func (m *markdown) end() string {
	m.buf += m.clean.End()
	m.advance(true)
	m.endTable()
	if m.within {
		m.endLine()
	}
	m.fence = nil
	return m.w.taken()
}

func (m *markdown) advance(last bool) {
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
			return // more is needed
		}
	}
}

var (
	fenceLine = regexp.MustCompile("^( {0,12})(```+|~~~+)[ \t]*([^`\n]*)$")
	heading   = regexp.MustCompile(`^ {0,3}(#{1,6})[ \t]+`)
	listItem  = regexp.MustCompile(`^([ \t]*)([-*+]|\d{1,9}[.)])([ \t]+)(\[[ xX]\][ \t]+)?`)
	ruler     = regexp.MustCompile(`^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	quotes    = regexp.MustCompile(`^(?: {0,3}> ?)+`)
	delimiter = regexp.MustCompile(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
)

// begin takes the beginning of a line, once it is clear what it is.
func (m *markdown) begin(last bool) {
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
		if f := fenceLine.FindStringSubmatch(line); f != nil {
			m.fence = &fence{mark: f[2][0], length: len(f[2]), indent: len(f[1]), code: newHighlighter(m.o, f[3])}
			m.take(line)
			return
		}
		if ruler.MatchString(line) {
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
	m.base, m.prev, m.within = normal, ' ', true
	first, hang := "", ""
	if q := quotes.FindString(m.buf); q != "" {
		bar := strings.Repeat(m.o.paint(dim, "│")+" ", min(strings.Count(q, ">"), 8))
		first, hang, m.base = bar, bar, dim
		m.buf = m.buf[len(q):]
	}
	if h := heading.FindStringSubmatch(m.buf); h != nil {
		m.base = bold | cyan
		if len(h[1]) == 1 {
			m.base |= underline
		}
		m.buf = m.buf[len(h[0]):]
	} else if l := listItem.FindStringSubmatch(m.buf); l != nil {
		indent := strings.Repeat(" ", min(len(strings.ReplaceAll(l[1], "\t", "    ")), 24))
		mark := l[2]
		switch {
		case l[4] != "" && l[4][1] == ' ':
			mark = "☐"
		case l[4] != "":
			mark = "☑"
		case len(mark) == 1:
			mark = "•"
		}
		first += indent + m.o.paint(cyan, mark) + " "
		hang += indent + strings.Repeat(" ", safetext.Width(mark)+1)
		m.buf = m.buf[len(l[0]):]
	} else if trimmed := strings.TrimLeft(m.buf, " \t"); len(trimmed) < len(m.buf) {
		indent := strings.Repeat(" ", min(len(strings.ReplaceAll(m.buf[:len(m.buf)-len(trimmed)], "\t", "    ")), 24))
		first, hang = first+indent, hang+indent
		m.buf = trimmed
	}
	m.w.prefixed(first, hang)
	if m.buf == "" {
		if last {
			m.endLine()
		}
		return
	}
	if m.buf[0] == '\n' { // a mark with nothing behind it
		m.rest(last)
	}
}

// undecided reports whether the beginning of a line may still become something that begins with it.
func undecided(line string) bool {
	t := strings.TrimLeft(line, " \t>")
	if t == "" {
		return true
	}
	switch c := t[0]; {
	case c == '#', c == '-', c == '+', c == '*', c == '_':
		rest := strings.TrimLeft(t, string(c))
		if c == '#' {
			return rest == "" || strings.Trim(rest, " \t") == ""
		}
		if rest == "" || strings.Trim(t, string(c)+" \t") == "" {
			return true // a ruler, or a mark
		}
		return listItem.MatchString(t) && len(t) < 8 && strings.HasPrefix(strings.TrimLeft(t[1:], " \t"), "[")
	case c >= '0' && c <= '9':
		rest := strings.TrimLeft(t, "0123456789")
		return rest == "" || strings.Trim(rest, ".) \t") == "" && len(rest) < 3
	case c == '`':
		return strings.HasPrefix(t, "```") || strings.Trim(t, "`") == ""
	case c == '~':
		return strings.HasPrefix(t, "~~~") || strings.Trim(t, "~") == ""
	case c == '|':
		return true
	}
	return false
}

// take drops a line that was dealt with.
func (m *markdown) take(line string) {
	m.buf = m.buf[min(len(line)+1, len(m.buf)):]
}

// rest takes more of a line that was begun.
func (m *markdown) rest(last bool) {
	line, _, whole := strings.Cut(m.buf, "\n")
	n := m.inline(line, whole || last, m.base)
	m.buf = m.buf[n:]
	if whole && n == len(line) {
		m.buf = m.buf[1:]
		m.endLine()
	}
}

func (m *markdown) endLine() {
	m.w.newline()
	m.within = false
}

// codeLine takes a line of code.
func (m *markdown) codeLine(last bool) {
	line, _, whole := strings.Cut(m.buf, "\n")
	if !whole && !last && len(line) < maxHeldLine {
		return
	}
	if t := strings.TrimSpace(line); !m.fence.within && len(t) >= m.fence.length && strings.Trim(t, string(m.fence.mark)) == "" {
		m.fence = nil
		m.take(line)
		return
	}
	for i := 0; i < m.fence.indent && strings.HasPrefix(line, " "); i++ {
		line, m.buf = line[1:], m.buf[1:]
	}
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
