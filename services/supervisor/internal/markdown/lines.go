// Package markdown parses the Markdown that agents write: the beginnings of lines, and the spans within lines. Those
// who write it somewhere, render to a terminal and transcript to a page, put lines together in their own ways: a
// terminal gets a message as it comes.
//
// The text is hostile. Each byte is looked at a bounded number of times, so that reading takes time in proportion to the
// text, whatever it is. What the package does not know is text as it is written. It makes nothing harmless: what it is given
// must be, and what it gives has to be escaped where text means something.
package markdown

import (
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
)

var (
	fenceLine = lazyregexp.New("^( {0,12})(```+|~~~+)[ \t]*([^`\n]*)$")
	heading   = lazyregexp.New(`^ {0,3}(#{1,6})[ \t]+`)
	listItem  = lazyregexp.New(`^([ \t]*)([-*+]|\d{1,9}[.)])(?:[ \t]+|$)(\[[ xX]\][ \t]+)?`)
	ruler     = lazyregexp.New(`^ {0,3}(?:(?:-[ \t]*){3,}|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})$`)
	delimiter = lazyregexp.New(`^[ \t]*\|?[ \t]*:?-+:?[ \t]*(\|[ \t]*:?-+:?[ \t]*)*\|?[ \t]*$`)
)

// Fence is the line that begins a block of code.
type Fence struct {
	// Indent is how many spaces stand before it, which do not belong to the lines of the code either.
	Indent int
	// Info is what stands behind it, as a rule the language.
	Info string

	mark string
}

// FenceOf reads a whole line; false: it begins no block of code.
func FenceOf(line string) (Fence, bool) {
	m := fenceLine.FindStringSubmatch(line)
	if m == nil {
		return Fence{}, false
	}
	return Fence{Indent: len(m[1]), Info: m[3], mark: m[2]}, true
}

// EndedBy reports whether a whole line ends the block: as many of the same marks, not much further in.
func (f Fence) EndedBy(line string) bool {
	text := strings.TrimSpace(line)
	return len(text) >= len(f.mark) && strings.Trim(text, f.mark[:1]) == "" && indentOf(line) < f.Indent+4
}

// Code is a line of the block without the spaces that its fence has too.
func (f Fence) Code(line string) string {
	return line[min(f.Indent, indentOf(line)):]
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// Ticks returns backticks, more than stand together anywhere in text, and least at least: what stands between two of these
// is code.
func Ticks(text string, least int) string {
	for i := strings.IndexByte(text, '`'); i >= 0; i = strings.IndexByte(text, '`') {
		together := run(text[i:], '`')
		least = max(least, together+1)
		text = text[i+together:]
	}
	return strings.Repeat("`", least)
}

// HeadingOf returns a heading's level, and how many bytes of the line its mark takes; 0: the line is no heading.
func HeadingOf(line string) (level, size int) {
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return 0, 0
	}
	return len(m[1]), len(m[0])
}

// Item is the mark of an item of a list.
type Item struct {
	// Indent is the white space before it.
	Indent string
	// Mark is "-", "*" or "+", or a number with "." or ")".
	Mark string
	// Box is '☐' or '☑' if the item is a task, else 0.
	Box rune
	// Size is how many bytes of the line all of this takes.
	Size int
}

// ItemOf reads the beginning of a line; false: it begins no item.
func ItemOf(line string) (Item, bool) {
	m := listItem.FindStringSubmatch(line)
	if m == nil {
		return Item{}, false
	}
	it := Item{Indent: m[1], Mark: m[2], Size: len(m[0])}
	switch {
	case m[3] == "":
	case m[3][1] == ' ':
		it.Box = '☐'
	default:
		it.Box = '☑'
	}
	return it, true
}

// Ordered reports whether the item has a number.
func (it Item) Ordered() bool { return len(it.Mark) > 1 }

// IsRule reports whether a whole line is a line across the page.
func IsRule(line string) bool { return ruler.MatchString(line) }

// IsTableRule reports whether a whole line is the one that stands below the head of a table.
func IsTableRule(line string) bool { return delimiter.MatchString(line) }

// maxCells is how many cells a row has at most.
const maxCells = 64

// Cells splits a row of a table at bars that are not escaped and not in code.
func Cells(row string) []string {
	row = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(row), "|"), "|")
	var list []string
	start, code := 0, false
	add := func(end int) {
		list = append(list, strings.TrimSpace(strings.ReplaceAll(row[start:end], `\|`, "|")))
	}
	for i := 0; i < len(row) && len(list) < maxCells-1; i++ {
		switch row[i] {
		case '\\':
			i++
		case '`':
			code = !code
		case '|':
			if !code {
				add(i)
				start = i + 1
			}
		}
	}
	add(len(row))
	return list
}
