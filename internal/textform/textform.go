// Package textform keeps the form of a text file when its content is replaced: line ends and a byte order mark.
// Programs that edit text often read CRLF as LF and drop the mark; without this, one edit would change each line.
//
// fsd uses it for writing, and the supervisor to show the resulting file. It knows bytes, not files.
package textform

import (
	"strings"
	"unicode/utf8"
)

// mark is U+FEFF in UTF-8.
const mark = "\ufeff"

// Form is the form of a text file. The zero value changes nothing.
type Form struct {
	// CRLF reports whether each line end is CR LF, and there is at least one.
	CRLF bool
	// Mark reports whether the file begins with a byte order mark.
	Mark bool
}

// Of returns the form of a file with a content. Content that is not text (not UTF-8, or with a NUL) and files with
// mixed line ends have the zero form.
func Of(content string) Form {
	if strings.IndexByte(content, 0) >= 0 || !utf8.ValidString(content) {
		return Form{}
	}
	ends := strings.Count(content, "\n")
	return Form{CRLF: ends > 0 && ends == strings.Count(content, "\r\n"), Mark: strings.HasPrefix(content, mark)}
}

// May reports whether a file whose content begins with beginning can have a form. It returns false for most files,
// which then need not be read.
func May(beginning string) bool {
	end := strings.IndexByte(beginning, '\n')
	return strings.HasPrefix(beginning, mark) || end < 0 || end > 0 && beginning[end-1] == '\r'
}

// Apply returns a new content in the form: each LF without CR becomes CR LF, and the mark is put in front. It returns
// content that has the form, and empty content, unchanged.
func (f Form) Apply(content string) string {
	if content == "" {
		return ""
	}
	front := ""
	if f.Mark && !strings.HasPrefix(content, mark) {
		front = mark
	}
	bare := 0
	if f.CRLF {
		bare = strings.Count(content, "\n") - strings.Count(content, "\r\n")
	}
	if bare == 0 {
		return front + content
	}
	var b strings.Builder
	b.Grow(len(front) + len(content) + bare)
	b.WriteString(front)
	for line := range strings.Lines(content) {
		text, ended := strings.CutSuffix(line, "\n")
		b.WriteString(text)
		if ended {
			b.WriteString("\r\n"[len(text)-len(strings.TrimSuffix(text, "\r")):])
		}
	}
	return b.String()
}

// Plain returns a content without the form, as written by a program that does not know the form. Apply is the inverse.
// Where it would not be, the content is returned unchanged.
func (f Form) Plain(content string) string {
	plain := content
	if f.Mark {
		plain = strings.TrimPrefix(plain, mark)
	}
	if f.CRLF {
		plain = strings.ReplaceAll(plain, "\r\n", "\n")
	}
	if f.Apply(plain) != content {
		return content
	}
	return plain
}

// String describes the form for people: "CRLF line ends and byte order mark". Empty for the zero value.
func (f Form) String() string {
	switch {
	case f.CRLF && f.Mark:
		return "CRLF line ends and byte order mark"
	case f.CRLF:
		return "CRLF line ends"
	case f.Mark:
		return "byte order mark"
	}
	return ""
}
