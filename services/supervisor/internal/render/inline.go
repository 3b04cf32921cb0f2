package render

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

// inline shows a line, or what is there of it, and returns how many bytes it took. Where the line is not whole, a span
// that is open at its end is left for later.
func (m *markdown) inline(line string, whole bool, s style) int {
	i, start := 0, 0
	flush := func() {
		if start < i {
			m.say(s, line[start:i])
		}
		start = i
	}
	for i < len(line) {
		n, verdict := m.span(line, i, whole, s, flush)
		switch verdict {
		case spanShown:
			i += n
			start = i
		case spanOpen:
			flush()
			return i
		default:
			i += n
		}
	}
	flush()
	return len(line)
}

// verdict is what became of a place in a line.
type verdict int

const (
	spanNone  verdict = iota // text: n bytes of it
	spanShown                // a span of n bytes, shown
	spanOpen                 // a span that may be closed by what comes
)

// span looks at line[i:].
func (m *markdown) span(line string, i int, whole bool, s style, flush func()) (int, verdict) {
	rest, cut := safetext.Prefix(line[i:], maxAhead)
	whole = whole || cut
	open := func(n int) (int, verdict) {
		if !whole && len(rest) < maxSpan {
			return 0, spanOpen
		}
		return n, spanNone
	}
	switch c := rest[0]; c {
	case '\\':
		if len(rest) == 1 {
			return open(1)
		}
		if unicode.IsPunct(rune(rest[1])) || unicode.IsSymbol(rune(rest[1])) {
			// safetext writes escapes with a backslash: these stay as they are.
			flush()
			m.say(s, rest[1:2])
			return 2, spanShown
		}
		return 1, spanNone
	case '`':
		n := run(rest, '`')
		if n == len(rest) {
			return open(n)
		}
		end := closing(rest[n:], '`', n)
		if end < 0 || end > maxSpan {
			return open(n)
		}
		flush()
		code := rest[n : n+end]
		if len(code) > 2 && code[0] == ' ' && code[len(code)-1] == ' ' {
			code = code[1 : len(code)-1]
		}
		m.say(s&^dim|cyan, code)
		return n + end + n, spanShown
	case '*', '_', '~':
		return m.emphasis(line[:i], rest, whole, s, flush, open)
	case '!', '[':
		return m.link(rest, s, flush, open)
	}
	return utf8RuneLen(rest), spanNone
}

// emphasis looks at a run of '*', '_' or '~' behind said.
func (m *markdown) emphasis(said, rest string, whole bool, s style, flush func(), open func(int) (int, verdict)) (int, verdict) {
	c := rest[0]
	n := run(rest, c)
	if n == len(rest) && !whole {
		return open(n)
	}
	after, _ := utf8.DecodeRuneInString(rest[n:])
	before := m.prev
	if said != "" {
		before, _ = utf8.DecodeLastRuneInString(said)
	}
	if n > 3 || c == '~' && n != 2 || n == len(rest) || unicode.IsSpace(after) || c == '_' && wordy(before) {
		return n, spanNone
	}
	end := closingEmphasis(rest[n:], c, n, whole)
	if end < 0 || end > maxSpan {
		return open(n)
	}
	flush()
	inner := s
	if c == '~' {
		inner |= strike
	} else {
		if n&1 != 0 {
			inner |= italic
		}
		if n&2 != 0 {
			inner |= bold
		}
	}
	m.inline(rest[n:n+end], true, inner)
	return n + end + n, spanShown
}

// link looks at "[text](address)" and "![text](address)". The address is always shown: a person should see where it
// leads.
func (m *markdown) link(rest string, s style, flush func(), open func(int) (int, verdict)) (int, verdict) {
	from := 1
	if rest[0] == '!' {
		if len(rest) == 1 {
			return open(1)
		}
		if rest[1] != '[' {
			return 1, spanNone
		}
		from = 2
	}
	text, after, ok := strings.Cut(rest[from:], "]")
	switch {
	case !ok || len(text) <= maxSpan && after == "":
		return open(from)
	case after == "" || after[0] != '(' || len(text) > maxSpan:
		return from, spanNone
	}
	address, _, ok := strings.Cut(after[1:], ")")
	switch {
	case !ok:
		return open(from)
	case len(address) > maxSpan:
		return from, spanNone
	}
	flush()
	size := from + len(text) + 2 + len(address) + 1
	if from == 2 {
		m.say(s|dim, "image: ")
	}
	if text != "" && text != address {
		m.inline(text, true, s|underline)
		m.say(s|dim, " ("+address+")")
	} else {
		m.say(s|underline, address)
	}
	return size, spanShown
}

// say shows text.
func (m *markdown) say(s style, text string) {
	if text == "" {
		return
	}
	m.prev, _ = utf8.DecodeLastRuneInString(text)
	m.w.text(s, strings.ReplaceAll(text, "\t", "    "))
}

// run is how often c stands at the beginning of text.
func run(text string, c byte) int {
	n := 0
	for n < len(text) && text[n] == c {
		n++
	}
	return n
}

// closing finds a run of exactly n of c.
func closing(text string, c byte, n int) int {
	for i := 0; i < len(text); {
		if text[i] != c {
			i++
			continue
		}
		r := run(text[i:], c)
		if r == n {
			return i
		}
		i += r
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
		if r >= n && i > 0 && !unicode.IsSpace(before) && (c != '_' || i+r == len(text) || !wordy(after)) && (r == n || r == 3) {
			return i + r - n
		}
		i += r
	}
	return -1
}

func wordy(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r) }

func utf8RuneLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
