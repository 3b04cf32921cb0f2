package markdown

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxSpan is how long a span can be, in bytes, to be one: until it is closed, it is held back. No further than maxAhead is
// looked for its end, so that the time that text takes grows with its length alone.
const (
	maxSpan  = 400
	maxAhead = 2*maxSpan + 16
)

// Emphasis is how text is marked.
type Emphasis int

// The marks of text; '***' is Bold and Italic.
const (
	Italic Emphasis = 1 << iota
	Bold
	Struck
)

// Writer writes what is within lines.
type Writer interface {
	Text(text string)
	Code(code string)
	// Emphasis writes what within writes, marked.
	Emphasis(e Emphasis, within func())
	// Link is "[text](address)", or, if it is a picture, "![text](address)"; within writes the text.
	Link(picture bool, text, address string, within func())
}

// Spans reads what is within lines, for a Writer.
type Spans struct {
	W Writer

	prev rune // the last character that was written
}

// Begin begins a line.
func (s *Spans) Begin() { s.prev = ' ' }

// Read writes a line, or what is there of it, and returns how many bytes it took. Where the line is not whole, a span that
// is open at its end is left for later.
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

// text writes text as it is.
func (s *Spans) text(text string) {
	if text != "" {
		s.prev, _ = utf8.DecodeLastRuneInString(text)
		s.W.Text(text)
	}
}

// span looks at line[i:]. It returns the bytes of a span and what writes it, or bytes of text and nil; and whether it is a
// span that may be closed by what comes.
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
			// safetext writes escapes with a backslash: these stay as they are.
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

// emphasis looks at a run of '*', '_' or '~' behind a character.
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
	e := Emphasis(n) // one is Italic, two are Bold
	if c == '~' {
		e = Struck
	}
	return n + end + n, func() { s.W.Emphasis(e, func() { s.Read(rest[n:n+end], true) }) }, false
}

// link looks at "[text](address)" and "![text](address)".
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

// run is how often c stands at the beginning of text.
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

// closingEmphasis finds the run that closes emphasis: no space before it, and for '_' no word behind it. Spans of code
// are passed over.
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
			return -1 // it may grow
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

// Wordy reports whether a character belongs to words.
func Wordy(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }
