package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// maxSpan limits the bytes of a span, which is buffered until it is closed. Its end is searched for within maxAhead
// bytes, so that the time is linear in the length of the text.
const (
	maxSpan  = 400
	maxAhead = 2*maxSpan + 16
)

// Emphasis is the emphasis of a text.
type Emphasis int

// The kinds of emphasis. '***' is Bold and Italic.
const (
	Italic Emphasis = 1 << iota
	Bold
	Struck
)

// Writer writes the content of lines.
type Writer interface {
	Text(text string)
	Code(code string)
	// Emphasis writes the output of within with emphasis.
	Emphasis(e Emphasis, within func())
	// Link is "[text](address)", or, if it is a picture, "![text](address)". within writes the text.
	Link(picture bool, text, address string, within func())
}

// Spans parses the content of lines, and calls a Writer.
type Spans struct {
	W Writer

	prev rune // the last character that was written
}

// Begin begins a line.
func (s *Spans) Begin() { s.prev = ' ' }

// Read writes a line, or its first part, and returns the number of bytes that it has written. If the line is
// incomplete, a span that is open at its end is left for the next call.
func (s *Spans) Read(line string, whole bool) int {
	start := 0
	for i := 0; i < len(line); {
		n, write, open := s.span(line, i, whole)
		if open {
			s.text(line[start:i])
			return i
		}
		if write != nil {
			s.text(line[start:i])
			write()
			start = i + n
		}
		i += n
	}
	s.text(line[start:])
	return len(line)
}

// text writes plain text.
func (s *Spans) text(text string) {
	if text != "" {
		s.prev, _ = utf8.DecodeLastRuneInString(text)
		s.W.Text(text)
	}
}

// span parses line[i:]. It returns the size of a span and a function that writes it, or the size of plain text and nil.
// The last result reports whether the text may become a span when more text arrives.
func (s *Spans) span(line string, i int, whole bool) (int, func(), bool) {
	rest, cut := safetext.Prefix(line[i:], maxAhead)
	whole = whole || cut
	unclosed := !whole && len(rest) < maxSpan
	switch c := rest[0]; c {
	case '\\':
		switch {
		case len(rest) == 1:
			return 1, nil, unclosed
		case rest[1] < utf8.RuneSelf && (unicode.IsPunct(rune(rest[1])) || unicode.IsSymbol(rune(rest[1]))):
			// safetext writes escapes with a backslash, which are unchanged.
			return 2, func() { s.text(rest[1:2]) }, false
		}
		return 1, nil, false
	case '`':
		n := run(rest, '`')
		end := closing(rest[n:], '`', n)
		if end < 0 || end > maxSpan {
			return n, nil, unclosed
		}
		return n + end + n, func() { s.code(rest[n : n+end]) }, false
	case '*', '_', '~':
		before := s.prev
		if i > 0 {
			before, _ = utf8.DecodeLastRuneInString(line[:i])
		}
		return s.emphasis(before, rest, whole, unclosed)
	case '!', '[':
		return s.link(rest, unclosed)
	}
	_, n := utf8.DecodeRuneInString(rest)
	return n, nil, false
}

func (s *Spans) code(code string) {
	code = strings.ReplaceAll(code, "\n", " ")
	if strings.HasPrefix(code, " ") && strings.HasSuffix(code, " ") && strings.TrimSpace(code) != "" {
		code = code[1 : len(code)-1]
	}
	s.prev, _ = utf8.DecodeLastRuneInString(code)
	s.W.Code(code)
}

// emphasis parses a run of '*', '_' or '~' after a character.
func (s *Spans) emphasis(before rune, rest string, whole, unclosed bool) (int, func(), bool) {
	c := rest[0]
	n := run(rest, c)
	if n == len(rest) && !whole {
		return n, nil, unclosed
	}
	after, _ := utf8.DecodeRuneInString(rest[n:])
	if n > 3 || c == '~' && n != 2 || n == len(rest) || unicode.IsSpace(after) || c == '_' && Wordy(before) {
		return n, nil, false
	}
	end := closingEmphasis(rest[n:], c, n, whole)
	if end < 0 || end > maxSpan {
		return n, nil, unclosed
	}
	e := Emphasis(n) // one mark is Italic, two are Bold
	if c == '~' {
		e = Struck
	}
	return n + end + n, func() { s.W.Emphasis(e, func() { s.Read(rest[n:n+end], true) }) }, false
}

// link parses "[text](address)" and "![text](address)".
func (s *Spans) link(rest string, unclosed bool) (int, func(), bool) {
	inside, picture := strings.CutPrefix(rest, "!")
	switch {
	case inside == "":
		return 1, nil, unclosed
	case inside[0] != '[':
		return 1, nil, false
	}
	from := len(rest) - len(inside) + 1
	text, after, ok := strings.Cut(inside[1:], "]")
	switch {
	case !ok || len(text) <= maxSpan && after == "":
		return from, nil, unclosed
	case after == "" || after[0] != '(' || len(text) > maxSpan:
		return from, nil, false
	}
	address, _, ok := strings.Cut(after[1:], ")")
	switch {
	case !ok:
		return from, nil, unclosed
	case len(address) > maxSpan:
		return from, nil, false
	}
	return from + len(text) + 2 + len(address) + 1, func() {
		s.W.Link(picture, text, address, func() { s.Read(text, true) })
		s.prev = ')'
	}, false
}

// run returns the number of times that c occurs at the beginning of text.
func run(text string, c byte) int { return len(text) - len(strings.TrimLeft(text, string(c))) }

// closing finds a run of exactly n of c.
func closing(text string, c byte, n int) int {
	for i := 0; i < len(text); i++ {
		if r := run(text[i:], c); r == n {
			return i
		} else if r > 0 {
			i += r - 1
		}
	}
	return -1
}

// closingEmphasis finds the run that closes an emphasis: it follows no space, and for '_' no word follows it. Code
// spans are skipped.
func closingEmphasis(text string, c byte, n int, whole bool) int {
	for i := 0; i < len(text); {
		switch {
		case text[i] == '\\' && i+1 < len(text):
			i += 2
			continue
		case text[i] == '`':
			r := run(text[i:], '`')
			if end := closing(text[i+r:], '`', r); end >= 0 {
				i += end + r
			}
			i += r
			continue
		case text[i] != c:
			i++
			continue
		}
		r := run(text[i:], c)
		if i+r == len(text) && !whole && r <= n {
			return -1 // the run may become longer
		}
		before, _ := utf8.DecodeLastRuneInString(text[:i])
		after, _ := utf8.DecodeRuneInString(text[i+r:])
		if r >= n && i > 0 && !unicode.IsSpace(before) && (c != '_' || i+r == len(text) || !Wordy(after)) && (r == n || r == 3) {
			return i + r - n
		}
		i += r
	}
	return -1
}

// Wordy reports whether a character is part of a word.
func Wordy(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
