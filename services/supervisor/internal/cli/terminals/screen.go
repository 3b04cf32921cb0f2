package terminals

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/escape"
)

// screenText writes the raw output of an agent's terminal for a user. It filters escape sequences, because a terminal
// also obeys sequences that set the clipboard or make it type: if w is a terminal, it keeps only sequences that colour
// text, move the cursor or erase, otherwise none.
type screenText struct {
	w     io.Writer
	moves bool // w is a terminal

	scan     escape.Scanner
	wrote    bool // text was written after the last line feed
	returned bool // a carriage return waits for the next character
}

// maxSequence limits the bytes of a sequence's parameters.
const maxSequence = 64

// Write implements io.Writer. It buffers the possible beginning of a sequence.
func (s *screenText) Write(data []byte) (int, error) {
	var out bytes.Buffer
	for t := range s.scan.Scan(data) {
		switch {
		case t.Sequence == nil:
			s.text(&out, t.Text)
			s.char(&out, rune(t.Control))
		case s.moves && allowedSequence(t.Sequence):
			out.WriteString("\x1b[" + string(t.Sequence.Params) + string(t.Sequence.Final))
		}
	}
	if out.Len() > 0 {
		if _, err := s.w.Write(out.Bytes()); err != nil {
			return 0, err
		}
	}
	return len(data), nil
}

// Close ends the text with a line feed and the terminal's default colours.
func (s *screenText) Close() error {
	var out bytes.Buffer
	s.text(&out, s.scan.Rest())
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

// allowedSequence reports whether a sequence colours, moves or erases: only numbers before such a letter, or showing
// and hiding the cursor, or wrapping lines.
func allowedSequence(seq *escape.Sequence) bool {
	switch {
	case !seq.Control || len(seq.Params) >= maxSequence:
		return false
	case seq.Final == 'h' || seq.Final == 'l':
		return slices.Contains([]string{"?25", "?7"}, string(seq.Params))
	}
	return strings.IndexByte("mABCDEFGHJKPX@LMSTdf`ae", seq.Final) >= 0 && strings.Trim(string(seq.Params), "0123456789;:") == ""
}

func (s *screenText) text(out *bytes.Buffer, text string) {
	for _, r := range text {
		s.char(out, r)
	}
}

// char writes a character, or drops it.
func (s *screenText) char(out *bytes.Buffer, r rune) {
	if s.returned {
		s.returned = false
		if r != '\n' && r != '\r' { // keep text that would be overwritten, as a line
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
