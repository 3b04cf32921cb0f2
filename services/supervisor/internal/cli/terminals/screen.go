package terminals

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// screenText writes the raw output of a terminal for a person. What runs there is an agent's, and a terminal obeys more
// than it should: it takes commands that set the clipboard, or that make it type. So of escape sequences those go on that
// colour text, move the cursor or erase, where w is a terminal, and none where it is not.
type screenText struct {
	w     io.Writer
	moves bool // w is a terminal

	state    scanState
	seq      []byte // of an escape sequence, or the beginning of a character
	wrote    bool   // something was written since the last line feed
	returned bool   // a carriage return waits for what follows it
}

// scanState is what part of the output comes next.
type scanState int

const (
	inText   scanState = iota
	inEscape           // behind ESC
	inCSI              // behind ESC [
	inString           // in a string of the terminal's, up to BEL or ESC \
	inStringEnd
)

// maxSequence is the longest escape sequence that goes on.
const maxSequence = 64

// Write implements io.Writer. It keeps what may be the beginning of something.
func (s *screenText) Write(data []byte) (int, error) {
	var out bytes.Buffer
	for _, c := range data {
		s.take(&out, c)
	}
	if out.Len() > 0 {
		if _, err := s.w.Write(out.Bytes()); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// Close ends the text: on a line of its own, in the terminal's own colours.
func (s *screenText) Close() error {
	var out bytes.Buffer
	if s.state == inText && len(s.seq) > 0 {
		s.text(&out, utf8.RuneError)
	}
	if s.moves {
		out.WriteString("\x1b[0m\x1b[?25h")
	}
	if s.wrote {
		out.WriteByte('\n')
	}
	if out.Len() == 0 {
		return nil
	}
	_, err := s.w.Write(out.Bytes())
	return err
}

func (s *screenText) take(out *bytes.Buffer, c byte) {
	const esc, bel, can, sub = 0x1b, 0x07, 0x18, 0x1a
	if c == can || c == sub { // these break a sequence off
		s.state, s.seq = inText, s.seq[:0]
		return
	}
	switch s.state {
	case inText:
		if c == esc {
			s.broken(out)
			s.state = inEscape
			return
		}
		s.char(out, c)
	case inEscape:
		s.escape(out, c)
	case inCSI:
		switch {
		case c == esc:
			s.state, s.seq = inEscape, s.seq[:0]
		case c < 0x20: // obeyed in the midst of a sequence
			s.text(out, rune(c))
		case c >= 0x40 && c <= 0x7e:
			if s.moves && len(s.seq) < maxSequence && goesOn(s.seq, c) {
				out.WriteString("\x1b[")
				out.Write(s.seq)
				out.WriteByte(c)
			}
			s.state, s.seq = inText, s.seq[:0]
		case len(s.seq) < maxSequence:
			s.seq = append(s.seq, c)
		}
	case inString:
		switch c {
		case bel:
			s.state = inText
		case esc:
			s.state = inStringEnd
		}
	case inStringEnd:
		s.state = inText
		if c != '\\' {
			s.escape(out, c) // the string was broken off
		}
	}
}

// escape takes what follows ESC.
func (s *screenText) escape(out *bytes.Buffer, c byte) {
	switch {
	case c == '[':
		s.state, s.seq = inCSI, s.seq[:0]
	case strings.IndexByte("]PX^_k", c) >= 0: // strings: titles, links, the clipboard, queries
		s.state = inString
	case c == 0x1b || c >= 0x20 && c <= 0x2f: // of character sets: one more byte comes
		s.state = inEscape
	case c < 0x20:
		s.state = inText
		s.text(out, rune(c))
	default:
		s.state = inText
	}
}

// goesOn reports whether a sequence colours, moves or erases: only numbers before a letter that does, or the cursor shown
// and hidden, or lines wrapped.
func goesOn(parameters []byte, final byte) bool {
	if final == 'h' || final == 'l' {
		return slices.Contains([]string{"?25", "?7"}, string(parameters))
	}
	if strings.IndexByte("mABCDEFGHJKPX@LMSTdf`ae", final) < 0 {
		return false
	}
	for _, p := range parameters {
		if (p < '0' || p > '9') && p != ';' && p != ':' {
			return false
		}
	}
	return true
}

// char takes a byte of text.
func (s *screenText) char(out *bytes.Buffer, c byte) {
	if c < utf8.RuneSelf {
		s.broken(out)
		s.text(out, rune(c))
		return
	}
	if len(s.seq) > 0 && utf8.RuneStart(c) {
		s.broken(out)
	}
	s.seq = append(s.seq, c)
	if !utf8.FullRune(s.seq) {
		return
	}
	r, _ := utf8.DecodeRune(s.seq)
	s.seq = s.seq[:0]
	s.text(out, r)
}

// broken stands for a character of which the rest did not come.
func (s *screenText) broken(out *bytes.Buffer) {
	if len(s.seq) > 0 {
		s.seq = s.seq[:0]
		s.text(out, utf8.RuneError)
	}
}

// text writes a character, or does without it.
func (s *screenText) text(out *bytes.Buffer, r rune) {
	if s.returned {
		s.returned = false
		if r != '\n' && r != '\r' { // what is written over stays, as a line
			out.WriteByte('\n')
			s.wrote = false
		}
	}
	switch {
	case r == '\r' && !s.moves:
		s.returned = s.wrote
		return
	case r == '\n':
		s.wrote = false
	case r == '\t', s.moves && (r == '\r' || r == '\b'):
	case unicode.IsControl(r), r == '\u2028', r == '\u2029', unicode.Is(unicode.Bidi_Control, r):
		return
	default:
		s.wrote = true
	}
	out.WriteRune(r)
}
