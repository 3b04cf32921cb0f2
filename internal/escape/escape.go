// Package escape reads the escape sequences in what programs write to a terminal, after ECMA-48 and what xterm does. It is
// the one reader of them: whoever shows such output as text, or lets some of the sequences through, asks it where they end.
//
// It knows how a sequence is written, not what one does.
package escape

import (
	"iter"
	"slices"
	"unicode/utf8"
)

const (
	maxControl = 256     // bytes of a control sequence; a longer one is none
	maxString  = 1 << 20 // bytes of a string; a longer one was never meant as one
)

const (
	bel = 0x07
	can = 0x18
	sub = 0x1a
	esc = 0x1b
)

type state int

const (
	none         state = iota
	escaped            // behind ESC
	charset            // behind ESC and an intermediate: one more
	control            // in a control sequence
	inString           // in a string that ends with ST, or if it is a title with BEL
	stringEscape       // in such a string, behind ESC
)

// Sequence is an escape sequence as far as it has come. The zero value is ready for Start.
type Sequence struct {
	// Control reports whether it is a control sequence, ESC [. Params are what stands before the last byte of such a one:
	// digits, their separators, private marks and intermediates.
	Control bool
	Params  []byte
	// Final is its last byte.
	Final byte

	state  state
	length int
	title  bool // a string that is on one line: a title, a link
}

// Step says what became of a byte.
type Step int

const (
	// More is that the sequence goes on.
	More Step = iota
	// Obey is that the byte is a control character, which counts as if it stood before the sequence. That goes on.
	Obey
	// Broken is that the sequence ended before the byte, which is no part of it.
	Broken
	// Nothing is that it ended, and nothing is left of it: a string, a character set, one that was broken off.
	Nothing
	// Whole is that it ended, as Control, Params and Final have it until the next Start.
	Whole
)

// Start begins a sequence, behind ESC.
func (s *Sequence) Start() { *s = Sequence{state: escaped, Params: s.Params[:0]} }

// Open reports whether the next byte is for Take.
func (s *Sequence) Open() bool { return s.state != none }

// Take takes the next byte of a sequence that is open.
func (s *Sequence) Take(c byte) Step {
	s.length++
	switch {
	case s.state == inString || s.state == stringEscape:
		return s.takeString(c)
	case c == esc:
		s.Start()
		return More
	case c == can || c == sub:
		return s.end(Nothing)
	case c < 0x20:
		return Obey
	case c == 0x7f:
		return More
	case c >= 0x80:
		return s.end(Broken)
	case s.state == escaped:
		return s.takeEscaped(c)
	case s.state == charset && c < 0x30:
		return More
	case s.state == charset || s.length > maxControl:
		return s.end(Nothing)
	case c < 0x40:
		s.Params = append(s.Params, c)
		return More
	}
	s.Control, s.Final = true, c
	return s.end(Whole)
}

func (s *Sequence) end(how Step) Step {
	s.state = none
	return how
}

// takeEscaped takes the byte behind ESC.
func (s *Sequence) takeEscaped(c byte) Step {
	switch c {
	case '[':
		s.state = control
	case ']', 'k': // k: a title, in the words of screen and tmux
		s.state, s.title = inString, true
	case 'P', 'X', '^', '_':
		s.state = inString
	default:
		if c < 0x30 {
			s.state = charset
			return More
		}
		s.Final = c
		return s.end(Whole)
	}
	return More
}

// takeString takes a byte of a string. A title that was never ended takes the rest of its line and no more: text that
// follows is not hidden by it.
func (s *Sequence) takeString(c byte) Step {
	switch {
	case s.state == stringEscape && c == '\\', c == can, c == sub, c == bel && s.title, s.length > maxString:
		return s.end(Nothing)
	case s.state == stringEscape: // not ST: another sequence, which ends the string
		s.Start()
		return s.Take(c)
	case c == esc:
		s.state = stringEscape
	case c == '\n' && s.title:
		return s.end(Broken)
	}
	return More
}

// Token is a part of a program's output: text, a control character, or a sequence.
type Token struct {
	// Text is characters, none of them a control character of seven bits. Each byte that is no UTF-8 is U+FFFD.
	Text string
	// Sequence is a whole sequence, until the next Token. Nil: it is something else.
	Sequence *Sequence
	// Control is a control character, where there is nothing else.
	Control byte
}

// Scanner takes output apart as it comes, in pieces of any length. The zero value is ready to use.
type Scanner struct {
	seq  Sequence
	part []byte // the beginning of a character
}

// Scan returns what is in the next piece, to be ranged over to its end. The beginning of a character at the end of the
// piece is held back.
func (s *Scanner) Scan(data []byte) iter.Seq[Token] {
	return func(yield func(Token) bool) {
		if len(s.part) > 0 {
			data = slices.Concat(s.part, data)
			s.part = nil
		}
		for len(data) > 0 {
			n, t := s.next(data)
			data = data[n:]
			if t != (Token{}) && !yield(t) {
				return
			}
		}
	}
}

// Rest returns the character that was begun and did not end, as U+FFFD for each byte; the output is over.
func (s *Scanner) Rest() string {
	rest := string([]rune(string(s.part)))
	s.part = nil
	return rest
}

// next returns what data begins with, and how many bytes of it that is. A zero Token: nothing.
func (s *Scanner) next(data []byte) (n int, t Token) {
	c := data[0]
	switch {
	case s.seq.Open():
		switch s.seq.Take(c) {
		case Obey:
			t.Control = c
		case Whole:
			t.Sequence = &s.seq
		case Broken:
			return 0, t
		}
		return 1, t
	case c == esc:
		s.seq.Start()
		return 1, t
	case isControl(c):
		return 1, Token{Control: c}
	}
	end := slices.IndexFunc(data, isControl)
	n = end
	if end < 0 {
		n, end = len(data), WholeRunes(data)
		s.part = slices.Clone(data[end:])
	}
	return n, Token{Text: string([]rune(string(data[:end])))}
}

func isControl(c byte) bool { return c < 0x20 || c == 0x7f }

// WholeRunes returns how many bytes of b are whole characters: all, but for an incomplete last one.
func WholeRunes(b []byte) int {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if tail := b[len(b)-i:]; utf8.RuneStart(tail[0]) {
			if !utf8.FullRune(tail) {
				return len(b) - i
			}
			break
		}
	}
	return len(b)
}
