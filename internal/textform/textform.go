// Package textform says what a text file keeps of its form when its content is replaced: the ends of its lines, and a byte
// order mark. Programs that edit text often read CRLF as LF and drop the mark; without this, one edit would change each line.
//
// fsd writes by it, and the supervisor shows by it what fsd would write. So it knows bytes alone, and no file.
package textform

import (
	"strings"
	"unicode/utf8"
)

// mark is U+FEFF in UTF-8.
const mark = "\ufeff"

// Form is what a text file keeps. The zero value keeps nothing.
type Form struct {
	// CRLF: each line end is CR LF, and there is at least one.
	CRLF bool
	// Mark: the file begins with a byte order mark.
	Mark bool
}

// Of is the form of a file with a content. What is not text (no UTF-8, or with a NUL) has none. A file whose line ends are
// mixed has none to keep.
func Of(content string) Form {
	if strings.IndexByte(content, 0) >= 0 || !utf8.ValidString(content) {
		return Form{}
	}
	ends := strings.Count(content, "\n")
	return Form{CRLF: ends > 0 && ends == strings.Count(content, "\r\n"), Mark: strings.HasPrefix(content, mark)}
}

// May reports whether a file whose content begins so can have a form to keep. It is false for nearly every file, which then
// need not be read.
func May(beginning string) bool {
	end := strings.IndexByte(beginning, '\n')
	return strings.HasPrefix(beginning, mark) || end < 0 || end > 0 && beginning[end-1] == '\r'
}

// Apply returns a new content in the form: each LF alone becomes CR LF, and the mark is put in front. What has the form, and an
// empty content, is returned as it is.
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

// Plain returns a content without what the form adds, as a program writes it that knows nothing of the form: Apply makes the
// content of it again. If it would not, the content is returned as it is.
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

// String names what is kept, for people: "CRLF line ends and byte order mark". Empty for the zero value.
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
