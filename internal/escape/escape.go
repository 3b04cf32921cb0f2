// Package escape parses escape sequences in the output of programs for a terminal, by ECMA-48 and as xterm does. All
// parts of acphost that show such output as text, or filter the sequences, use this parser, so that they agree about
// where sequences end.
//
// It knows the syntax of sequences, not their effects.
package escape

import (
	"iter"
	"slices"
	"unicode/utf8"
)

const (
	maxControl = 256     // bytes of a control sequence; a longer one is broken
	maxString  = 1 << 20 // bytes of a string; a longer one is broken
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
	escaped            // after ESC
	charset            // after ESC and an intermediate byte: one more byte follows
	control            // in a control sequence
	inString           // in a string that ends with ST or, for a title, with BEL
	stringEscape       // in such a string, after ESC
)

// Sequence is an escape sequence that may be incomplete. The zero value is ready for Start.
type Sequence struct {
	// Control reports whether this is a control sequence, ESC [. Params are its bytes before the final byte: digits,
	// separators, private marks and intermediate bytes.
	Control bool
	Params  []byte
	// Final is the last byte.
	Final byte

	state  state
	length int
	title  bool // a string on one line: a title or a link
}

// Step is the result of one byte.
type Step int

const (
	// More means that the sequence continues.
	More Step = iota
	// Obey means that the byte is a control character, which takes effect before the sequence. The sequence continues.
	Obey
	// Broken means that the sequence ended before the byte, which does not belong to it.
	Broken
	// Nothing means that the sequence ended and has no effect: a string, a character set, or a broken sequence.
	Nothing
	// Whole means that the sequence ended. Control, Params and Final describe it until the next Start.
	Whole
)

// Start begins a sequence, after ESC.
func (s *Sequence) Start() { *s = Sequence{state: escaped, Params: s.Params[:0]} }

// Open reports whether a sequence is incomplete, so that the next byte belongs to Feed.
func (s *Sequence) Open() bool { return s.state != none }

// Feed processes the next byte of an incomplete sequence.
func (s *Sequence) Feed(c byte) Step {
	s.length++
	switch {
	case s.state == inString || s.state == stringEscape:
		return s.feedString(c)
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
		return s.feedEscaped(c)
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

// feedEscaped processes the byte after ESC.
func (s *Sequence) feedEscaped(c byte) Step {
	switch c {
	case '[':
		s.state = control
	case ']', 'k': // k: a title, of screen and tmux
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

// feedString processes a byte of a string. An unterminated title ends with its line, so that it does not hide the
// following text.
func (s *Sequence) feedString(c byte) Step {
	switch {
	case s.state == stringEscape && c == '\\', c == can, c == sub, c == bel && s.title, s.length > maxString:
		return s.end(Nothing)
	case s.state == stringEscape: // another sequence instead of ST: it ends the string
		s.Start()
		return s.Feed(c)
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
	// Sequence is a complete sequence, valid until the next Token. Nil if the token is something else.
	Sequence *Sequence
	// Control is a control character, if Text and Sequence are empty.
	Control byte
}

// Scanner splits output, in pieces of any length, into tokens. The zero value is ready to use.
type Scanner struct {
	seq  Sequence
	part []byte // the first bytes of an incomplete character
}

// Scan returns the tokens of the next piece. The caller must range over all of them. Scan keeps an incomplete character
// at the end of the piece for the next call.
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

// Rest returns the incomplete character at the end of the output, as U+FFFD for each byte.
func (s *Scanner) Rest() string {
	rest := string([]rune(string(s.part)))
	s.part = nil
	return rest
}

// next returns the first token of data and its length in bytes. A zero Token means that there is no token.
func (s *Scanner) next(data []byte) (n int, t Token) {
	c := data[0]
	switch {
	case s.seq.Open():
		switch s.seq.Feed(c) {
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

// WholeRunes returns the number of bytes of b without an incomplete last character.
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
