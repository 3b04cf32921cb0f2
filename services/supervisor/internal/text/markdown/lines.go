// Package markdown parses the Markdown that agents write: the beginnings of lines, and the spans within lines. Its
// users, package render for terminals and package transcript for pages, combine lines in different ways, because a
// terminal receives a message in parts.
//
// The text is untrusted. Each byte is examined a limited number of times, so the time is linear in the size of the
// text. Syntax that the package does not know is plain text. The package does not sanitize: its input must be safe, and
// its output must be escaped where necessary.
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

// Fence is the line that begins a code block.
type Fence struct {
	// Indent is the number of spaces before it. The same number is removed from the lines of the code.
	Indent int
	// Info is the text after it, usually the language.
	Info string

	mark string
}

// FenceOf parses a whole line. It returns false if the line does not begin a code block.
func FenceOf(line string) (Fence, bool) {
	m := fenceLine.FindStringSubmatch(line)
	if m == nil {
		return Fence{}, false
	}
	return Fence{Indent: len(m[1]), Info: m[3], mark: m[2]}, true
}

// EndedBy reports whether a whole line ends the block: it has at least as many of the same marks, and is not indented
// much further.
func (f Fence) EndedBy(line string) bool {
	text := strings.TrimSpace(line)
	return len(text) >= len(f.mark) && strings.Trim(text, f.mark[:1]) == "" && indentOf(line) < f.Indent+4
}

// Code returns a line of the block without the indent of its fence.
func (f Fence) Code(line string) string {
	return line[min(f.Indent, indentOf(line)):]
}

func indentOf(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// Ticks returns a run of backticks that is longer than any run in text, and has at least least: text between two such
// runs is code.
func Ticks(text string, minimum int) string {
	for i := strings.IndexByte(text, '`'); i >= 0; i = strings.IndexByte(text, '`') {
		together := run(text[i:], '`')
		minimum = max(minimum, together+1)
		text = text[i+together:]
	}
	return strings.Repeat("`", minimum)
}

// HeadingOf returns a heading's level, and the size of its mark in bytes. Level 0 means that the line is not a heading.
func HeadingOf(line string) (level, size int) {
	m := heading.FindStringSubmatch(line)
	if m == nil {
		return 0, 0
	}
	return len(m[1]), len(m[0])
}

// Item is the mark of a list item.
type Item struct {
	// Indent is the white space before it.
	Indent string
	// Mark is "-", "*" or "+", or a number with "." or ")".
	Mark string
	// Box is '☐' or '☑' if the item is a task, else 0.
	Box rune
	// Size is the total number of bytes.
	Size int
}

// ItemOf parses the beginning of a line. It returns false if the line does not begin an item.
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

// IsRule reports whether a whole line is a horizontal rule.
func IsRule(line string) bool { return ruler.MatchString(line) }

// IsTableRule reports whether a whole line is the line below the header of a table.
func IsTableRule(line string) bool { return delimiter.MatchString(line) }

// maxCells limits the cells of a row.
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
