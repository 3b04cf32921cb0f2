package transcript

import (
	"html"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxNesting is how deep quotes and lists are followed; what is deeper is shown as it is written.
const maxNesting = 8

// prose is Markdown as HTML, as far as agents write it: paragraphs, headings, lists, quotes, code, tables, emphasis. It
// makes no links and no pictures: their addresses are shown. Every character of the text is escaped, and the elements are
// the few that are named here.
func prose(text string) template.HTML {
	p := proseWriter{budget: searchShare * len(text)}
	p.blocks(strings.Split(strings.Trim(safetext.Text(text), "\n"), "\n"), 0)
	return template.HTML(p.b.String()) //nolint:gosec // see above
}

type proseWriter struct {
	b      strings.Builder
	budget int // bytes that may be searched for ends of spans yet
}

var (
	headingLine = regexp.MustCompile(`^ {0,3}(#{1,6})[ \t]+(.*?)[ \t]*#*$`)
	ruleLine    = regexp.MustCompile(`^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	listLine    = regexp.MustCompile(`^( {0,3})([-*+]|[0-9]{1,9}[.)])([ \t]+|$)(.*)$`)
	fenceLine   = regexp.MustCompile("^( {0,3})(`{3,}|~{3,})[ \t]*([^`]*)$")
	tableRule   = regexp.MustCompile(`^ {0,3}\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
)

func (p *proseWriter) blocks(lines []string, depth int) {
	for len(lines) > 0 {
		l := lines[0]
		switch {
		case strings.TrimSpace(l) == "":
			lines = lines[1:]
		case depth > maxNesting:
			p.pre(strings.Join(lines, "\n"))
			return
		case fenceLine.MatchString(l):
			lines = p.fence(lines)
		case headingLine.MatchString(l):
			p.b.WriteString("<h4>")
			p.inline(headingLine.FindStringSubmatch(l)[2])
			p.b.WriteString("</h4>\n")
			lines = lines[1:]
		case ruleLine.MatchString(l):
			p.b.WriteString("<hr>\n")
			lines = lines[1:]
		case quotes(l):
			lines = p.quote(lines, depth)
		case listLine.MatchString(l):
			lines = p.list(lines, depth)
		case strings.Contains(l, "|") && len(lines) > 1 && strings.Contains(lines[1], "-") && tableRule.MatchString(lines[1]):
			lines = p.table(lines)
		case strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t"):
			n := 0
			for n < len(lines) && (strings.HasPrefix(lines[n], "    ") || strings.HasPrefix(lines[n], "\t")) {
				n++
			}
			p.pre(strings.Join(lines[:n], "\n"))
			lines = lines[n:]
		default:
			lines = p.paragraph(lines)
		}
	}
}

func quotes(l string) bool {
	return strings.HasPrefix(strings.TrimLeft(l, " "), ">") && indentOf(l) < 4
}

func indentOf(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }

func (p *proseWriter) pre(text string) {
	p.b.WriteString("<pre>" + html.EscapeString(text) + "</pre>\n")
}

func (p *proseWriter) fence(lines []string) []string {
	m := fenceLine.FindStringSubmatch(lines[0])
	indent, mark := len(m[1]), m[2]
	n := 1
	var code []string
	for ; n < len(lines); n++ {
		l := strings.TrimSpace(lines[n])
		if indentOf(lines[n]) < 4 && len(l) >= len(mark) && strings.Trim(l, mark[:1]) == "" {
			n++
			break
		}
		l = lines[n]
		code = append(code, l[min(indent, indentOf(l)):])
	}
	p.pre(strings.Join(code, "\n"))
	return lines[n:]
}

func (p *proseWriter) quote(lines []string, depth int) []string {
	n := 0
	var inner []string
	for ; n < len(lines) && quotes(lines[n]); n++ {
		l := strings.TrimPrefix(strings.TrimLeft(lines[n], " "), ">")
		inner = append(inner, strings.TrimPrefix(l, " "))
	}
	p.b.WriteString("<blockquote>\n")
	p.blocks(inner, depth+1)
	p.b.WriteString("</blockquote>\n")
	return lines[n:]
}

// list takes items of one kind. Lines that are further in than an item's mark, and blank ones between them, are its.
func (p *proseWriter) list(lines []string, depth int) []string {
	first := listLine.FindStringSubmatch(lines[0])
	ordered := len(first[2]) > 1
	tag, begin := "ul", ""
	if ordered {
		tag = "ol"
		if n, err := strconv.Atoi(first[2][:len(first[2])-1]); err == nil && n != 1 {
			begin = ` start="` + strconv.Itoa(n) + `"`
		}
	}
	p.b.WriteString("<" + tag + begin + ">\n")
	for len(lines) > 0 {
		m := listLine.FindStringSubmatch(lines[0])
		if m == nil || len(m[2]) > 1 != ordered || ruleLine.MatchString(lines[0]) {
			break
		}
		inner := []string{m[4]}
		within := len(m[1]) + 2
		n := 1
		for ; n < len(lines); n++ {
			l := lines[n]
			if strings.TrimSpace(l) == "" {
				if n+1 == len(lines) || indentOf(lines[n+1]) < within {
					break
				}
				inner = append(inner, "")
				continue
			}
			in := indentOf(l)
			if in < within && (listLine.MatchString(l) || headingLine.MatchString(l) || fenceLine.MatchString(l) || quotes(l) || ruleLine.MatchString(l)) {
				break
			}
			inner = append(inner, l[min(in, len(m[1])+len(m[2])+1):])
		}
		p.b.WriteString("<li>")
		p.item(inner, depth+1)
		p.b.WriteString("</li>\n")
		for n < len(lines) && strings.TrimSpace(lines[n]) == "" { // items may stand apart
			n++
		}
		lines = lines[n:]
	}
	p.b.WriteString("</" + tag + ">\n")
	return lines
}

// item is what is in a list's item: its first paragraph stands without a paragraph's space.
func (p *proseWriter) item(lines []string, depth int) {
	n := 0
	for n < len(lines) && strings.TrimSpace(lines[n]) != "" && !starts(lines[n]) {
		n++
	}
	text := strings.Join(lines[:n], "\n")
	switch {
	case strings.HasPrefix(text, "[ ] "):
		text = "☐" + text[3:]
	case strings.HasPrefix(text, "[x] "), strings.HasPrefix(text, "[X] "):
		text = "☑" + text[3:]
	}
	p.inline(text)
	p.blocks(lines[n:], depth)
}

// starts reports whether a line begins something that is no paragraph.
func starts(l string) bool {
	return fenceLine.MatchString(l) || headingLine.MatchString(l) || ruleLine.MatchString(l) || quotes(l) || listLine.MatchString(l)
}

func (p *proseWriter) paragraph(lines []string) []string {
	n := 1
	for n < len(lines) && strings.TrimSpace(lines[n]) != "" && !starts(lines[n]) {
		n++
	}
	p.b.WriteString("<p>")
	p.inline(strings.Join(lines[:n], "\n"))
	p.b.WriteString("</p>\n")
	return lines[n:]
}

func (p *proseWriter) table(lines []string) []string {
	p.b.WriteString("<table>\n")
	p.row(lines[0], "th")
	lines = lines[2:]
	for len(lines) > 0 && strings.Contains(lines[0], "|") && strings.TrimSpace(lines[0]) != "" {
		p.row(lines[0], "td")
		lines = lines[1:]
	}
	p.b.WriteString("</table>\n")
	return lines
}

func (p *proseWriter) row(line, tag string) {
	line = strings.TrimSpace(line)
	line = strings.TrimSuffix(strings.TrimPrefix(line, "|"), "|")
	p.b.WriteString("<tr>")
	for cell := range strings.SplitSeq(strings.ReplaceAll(line, `\|`, "\x00"), "|") {
		p.b.WriteString("<" + tag + ">")
		p.inline(strings.TrimSpace(strings.ReplaceAll(cell, "\x00", "|")))
		p.b.WriteString("</" + tag + ">")
	}
	p.b.WriteString("</tr>\n")
}

const (
	// maxSpan is how far the end of a span is looked for, in bytes.
	maxSpan = 4 << 10
	// searchShare is how often each byte of a text may be looked at for that, on average: text that begins spans without
	// end everywhere is shown as it is written.
	searchShare = 32
)

// spans are what marks text within a line, longest first.
var spans = [...]struct{ mark, tag string }{{"**", "strong"}, {"__", "strong"}, {"~~", "del"}, {"*", "em"}, {"_", "em"}}

// inline writes what is within a paragraph.
func (p *proseWriter) inline(text string) { p.spans(text, 0) }

func (p *proseWriter) spans(text string, depth int) {
	plain := 0 // where text begins that is not written
	flush := func(to int) {
		p.b.WriteString(html.EscapeString(text[plain:to]))
	}
	for i := 0; i < len(text); {
		switch c := text[i]; c {
		case '\\':
			if i+1 < len(text) && strings.IndexByte("\\`*_{}[]()<>#+-.!|~", text[i+1]) >= 0 {
				flush(i)
				plain = i + 1
				i += 2
				continue
			}
		case '`':
			if inner, end := p.codeSpan(text, i); end > 0 {
				flush(i)
				p.b.WriteString("<code>" + html.EscapeString(inner) + "</code>")
				i, plain = end, end
				continue
			}
			for i < len(text) && text[i] == '`' {
				i++
			}
			continue
		case '*', '_', '~':
			if tag, inner, end := p.emphasis(text, i); end > 0 && depth < maxNesting {
				flush(i)
				p.b.WriteString("<" + tag + ">")
				p.spans(inner, depth+1)
				p.b.WriteString("</" + tag + ">")
				i, plain = end, end
				continue
			}
			for i < len(text) && text[i] == c {
				i++
			}
			continue
		}
		i++
	}
	flush(len(text))
}

// codeSpan is the code that begins at i, and where it ends; 0: none does.
func (p *proseWriter) codeSpan(text string, i int) (inner string, end int) {
	n := i
	for n < len(text) && text[n] == '`' {
		n++
	}
	ticks := text[i:n]
	within := p.within(text, n)
	for at := 0; ; {
		j := strings.Index(within[at:], ticks)
		if j < 0 {
			return "", 0
		}
		j += at
		at = j
		for at < len(within) && within[at] == '`' {
			at++
		}
		if at-j != len(ticks) {
			continue
		}
		inner = strings.ReplaceAll(within[:j], "\n", " ")
		if strings.HasPrefix(inner, " ") && strings.HasSuffix(inner, " ") && strings.TrimSpace(inner) != "" {
			inner = inner[1 : len(inner)-1]
		}
		return inner, n + at
	}
}

// emphasis is the text that is marked at i, and where the mark's end is over; 0: nothing is. As everywhere, a mark stands
// at the edges of words.
func (p *proseWriter) emphasis(text string, i int) (tag, inner string, end int) {
	for _, s := range spans {
		if !strings.HasPrefix(text[i:], s.mark) {
			continue
		}
		from := i + len(s.mark)
		if from >= len(text) || isSpace(text[from]) || text[from] == s.mark[0] || s.mark[0] == '_' && i > 0 && isWord(text[i-1]) {
			continue
		}
		within := p.within(text, from)
		for at := 1; at < len(within); {
			j := strings.Index(within[at:], s.mark)
			if j < 0 {
				break
			}
			j += at
			after := from + j + len(s.mark)
			switch {
			case isSpace(within[j-1]) || within[j-1] == '\\':
			case s.mark[0] == '_' && after < len(text) && isWord(text[after]):
			case len(s.mark) == 1 && after < len(text) && text[after] == s.mark[0]: // of a longer mark
				at = j + 2
				continue
			case len(s.mark) == 2 && after < len(text) && text[after] == s.mark[0] && strings.IndexByte(within[:j], s.mark[0]) >= 0:
				return s.tag, text[from : from+j+1], after + 1 // the first of three ends what is within
			default:
				return s.tag, within[:j], after
			}
			at = j + 1
		}
	}
	return "", "", 0
}

// within is where the end of a span may be that begins at from.
func (p *proseWriter) within(text string, from int) string {
	n := min(len(text)-from, maxSpan, max(p.budget, 0))
	p.budget -= n
	return text[from : from+n]
}

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' }

func isWord(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c == '_' || c >= 0x80
}
