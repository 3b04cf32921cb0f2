package transcript

import (
	"html"
	"html/template"
	"strconv"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/markdown"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxNesting limits the nesting of quotes and lists. Deeper levels are shown as source text.
const maxNesting = 8

// prose converts Markdown to HTML. It creates no links and no pictures, and shows their addresses. It escapes every
// character of the text, and uses only the elements in this file.
func prose(text string) template.HTML {
	p := &proseWriter{}
	p.blocks(strings.Split(strings.Trim(safetext.Text(text), "\n"), "\n"), 0)
	return template.HTML(p.b.String()) //nolint:gosec // see above
}

type proseWriter struct{ b strings.Builder }

// block is the kind of block that a line begins.
type block int

const (
	paragraph block = iota
	blank
	fence
	heading
	rule
	quotation
	listed
)

func blockOf(l string) block {
	indent := indentOf(l)
	level, _ := markdown.HeadingOf(l)
	_, isFence := markdown.FenceOf(l)
	it, isItem := markdown.ItemOf(l)
	switch {
	case strings.TrimSpace(l) == "":
		return blank
	case isFence:
		return fence
	case level > 0:
		return heading
	case markdown.IsRule(l):
		return rule
	case indent < 4 && l[indent] == '>':
		return quotation
	case isItem && indent < 4 && indent == len(it.Indent):
		return listed
	}
	return paragraph
}

func indentOf(l string) int { return len(l) - len(strings.TrimLeft(l, " ")) }

// isCode reports whether a line is code because of its indent.
func isCode(l string) bool { return strings.HasPrefix(l, "    ") || strings.HasPrefix(l, "\t") }

func (p *proseWriter) blocks(lines []string, depth int) {
	for len(lines) > 0 {
		l := lines[0]
		kind := blockOf(l)
		switch {
		case kind == blank:
			lines = lines[1:]
		case depth > maxNesting:
			p.pre(lines)
			return
		case kind == fence:
			lines = p.fence(lines)
		case kind == heading:
			_, size := markdown.HeadingOf(l)
			p.element("h4", strings.TrimRight(strings.TrimRight(l[size:], "#"), " \t"))
			p.b.WriteByte('\n')
			lines = lines[1:]
		case kind == rule:
			p.b.WriteString("<hr>\n")
			lines = lines[1:]
		case kind == quotation:
			lines = p.quote(lines, depth)
		case kind == listed:
			lines = p.list(lines, depth)
		case strings.Contains(l, "|") && len(lines) > 1 && strings.Contains(lines[1], "-") && markdown.IsTableRule(lines[1]):
			lines = p.table(lines)
		case isCode(l):
			n := 1
			for n < len(lines) && isCode(lines[n]) {
				n++
			}
			p.pre(lines[:n])
			lines = lines[n:]
		default:
			n := paragraphOf(lines)
			p.element("p", strings.Join(lines[:n], "\n"))
			p.b.WriteByte('\n')
			lines = lines[n:]
		}
	}
}

// paragraphOf returns the number of lines of a paragraph: the first one in any case, and the following ones that do not
// begin another block.
func paragraphOf(lines []string) int {
	n := 1
	for n < len(lines) && blockOf(lines[n]) == paragraph {
		n++
	}
	return n
}

func (p *proseWriter) pre(lines []string) {
	p.b.WriteString("<pre>" + html.EscapeString(strings.Join(lines, "\n")) + "</pre>\n")
}

func (p *proseWriter) fence(lines []string) []string {
	f, _ := markdown.FenceOf(lines[0])
	n := 1
	var code []string
	for ; n < len(lines) && !f.EndedBy(lines[n]); n++ {
		code = append(code, f.Code(lines[n]))
	}
	p.pre(code)
	return lines[min(n+1, len(lines)):]
}

func (p *proseWriter) quote(lines []string, depth int) []string {
	n := 0
	var inner []string
	for ; n < len(lines) && blockOf(lines[n]) == quotation; n++ {
		inner = append(inner, strings.TrimPrefix(lines[n][indentOf(lines[n])+1:], " "))
	}
	p.b.WriteString("<blockquote>\n")
	p.blocks(inner, depth+1)
	p.b.WriteString("</blockquote>\n")
	return lines[n:]
}

// list processes items of one kind. Lines that are indented more than an item's mark, and blank lines between them,
// belong to the item.
func (p *proseWriter) list(lines []string, depth int) []string {
	first, _ := markdown.ItemOf(lines[0])
	tag, begin := "ul", ""
	if first.Ordered() {
		tag = "ol"
		if n, err := strconv.Atoi(first.Mark[:len(first.Mark)-1]); err == nil && n != 1 {
			begin = ` start="` + strconv.Itoa(n) + `"`
		}
	}
	p.b.WriteString("<" + tag + begin + ">\n")
	for len(lines) > 0 && blockOf(lines[0]) == listed {
		it, _ := markdown.ItemOf(lines[0])
		if it.Ordered() != first.Ordered() {
			break
		}
		text := lines[0][it.Size:]
		if it.Box != 0 {
			text = string(it.Box) + " " + text
		}
		inner := []string{text}
		within := len(it.Indent) + 2
		n := 1
		for ; n < len(lines); n++ {
			l := lines[n]
			in := indentOf(l)
			switch kind := blockOf(l); {
			case kind == blank && n+1 < len(lines) && indentOf(lines[n+1]) >= within:
				inner = append(inner, "")
				continue
			case kind == paragraph || kind != blank && in >= within:
				inner = append(inner, l[min(in, len(it.Indent)+len(it.Mark)+1):])
				continue
			}
			break
		}
		p.b.WriteString("<li>")
		p.item(inner, depth+1)
		p.b.WriteString("</li>\n")
		for n < len(lines) && blockOf(lines[n]) == blank { // blank lines between items
			n++
		}
		lines = lines[n:]
	}
	p.b.WriteString("</" + tag + ">\n")
	return lines
}

// item writes the content of a list item. Its first paragraph has no margin.
func (p *proseWriter) item(lines []string, depth int) {
	n := 0
	if blockOf(lines[0]) == paragraph {
		n = paragraphOf(lines)
	}
	p.inline(strings.Join(lines[:n], "\n"))
	p.blocks(lines[n:], depth)
}

func (p *proseWriter) table(lines []string) []string {
	p.b.WriteString("<table>\n")
	p.row(lines[0], "th")
	lines = lines[2:]
	for len(lines) > 0 && strings.Contains(lines[0], "|") {
		p.row(lines[0], "td")
		lines = lines[1:]
	}
	p.b.WriteString("</table>\n")
	return lines
}

func (p *proseWriter) row(line, tag string) {
	p.b.WriteString("<tr>")
	for _, cell := range markdown.Cells(line) {
		p.element(tag, cell)
	}
	p.b.WriteString("</tr>\n")
}

// element writes an element with text in it.
func (p *proseWriter) element(tag, text string) {
	p.b.WriteString("<" + tag + ">")
	p.inline(text)
	p.b.WriteString("</" + tag + ">")
}

// inline writes the content of a paragraph.
func (p *proseWriter) inline(text string) {
	s := markdown.Spans{W: p}
	s.Begin()
	s.Read(text, true)
}

// Text implements markdown.Writer.
func (p *proseWriter) Text(text string) { p.b.WriteString(html.EscapeString(text)) }

// Code implements markdown.Writer.
func (p *proseWriter) Code(code string) {
	p.b.WriteString("<code>" + html.EscapeString(code) + "</code>")
}

// Emphasis implements markdown.Writer.
func (p *proseWriter) Emphasis(e markdown.Emphasis, within func()) {
	end := ""
	for _, m := range [...]struct {
		markdown.Emphasis
		tag string
	}{{markdown.Italic, "em"}, {markdown.Bold, "strong"}, {markdown.Struck, "del"}} {
		if e&m.Emphasis != 0 {
			p.b.WriteString("<" + m.tag + ">")
			end = "</" + m.tag + ">" + end
		}
	}
	within()
	p.b.WriteString(end)
}

// Link implements markdown.Writer. It writes no link.
func (p *proseWriter) Link(picture bool, _, address string, within func()) {
	if picture {
		p.b.WriteByte('!')
	}
	p.b.WriteByte('[')
	within()
	p.Text("](" + address + ")")
}
