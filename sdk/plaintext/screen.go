// Package plaintext converts the output of a program on a terminal to the text that a user would read there.
//
// It drops colours and all other sequences without text. Carriage returns, backspaces and cursor movements affect the
// last 30 lines, as on a screen of 120×30, so a progress bar becomes one line and not a thousand. Lines are never
// wrapped. Text that a program clears from the screen stays, as in a terminal's scrollback. Text on the alternate
// screen exists only while the program uses that screen. A line feed moves to the start of the next line.
//
// The package does not know processes. For any input it keeps a limited amount of data: the lines that can still
// change.
package plaintext

import (
	"encoding/binary"
	"math/bits"
	"slices"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/escape"
)

// rowMax is the length of a line, in bytes, above which its beginning can no longer change.
const rowMax = 16 << 10

// Scrollback receives the text that can no longer change, in order and in pieces of any length.
type Scrollback interface{ Write(p []byte) }

// Screen is a terminal's text. Make it with New. It is not safe for concurrent use.
type Screen struct {
	scrollback Scrollback
	main       *grid
	alt        *grid // nil: not on the alternate screen
	g          *grid // the current one of the two

	seq     escape.Sequence
	last    [utf8.UTFMax]byte // the last character printed, for REP
	lastLen int
	partial []byte // the beginning of an incomplete character at the end of a write
	scratch []byte
}

// New returns an empty screen.
func New(scrollback Scrollback) *Screen {
	g := newGrid()
	return &Screen{scrollback: scrollback, main: g, g: g, partial: make([]byte, 0, utf8.UTFMax)}
}

// Text returns the text of complete output.
func Text(output []byte) []byte {
	var all page
	s := New(&all)
	s.Write(output)
	s.Finish()
	return s.AppendTo(all)
}

// page is text that cannot change any more.
type page []byte

func (p *page) Write(text []byte) { *p = append(*p, text...) }

// Write processes the next output. It always accepts all of it.
func (s *Screen) Write(p []byte) {
	if len(s.partial) > 0 {
		p = slices.Concat(s.partial, p)
		s.partial = s.partial[:0]
	}
	for len(p) > 0 {
		if s.seq.Open() {
			p = p[s.escape(p):]
			continue
		}
		if n, ascii := textRun(p); n > 0 {
			if ascii {
				s.print(p[:n], true)
			} else {
				s.printUTF8(p[:n], n == len(p))
			}
			p = p[n:]
			continue
		}
		if p[0] == '\r' && len(p) > 1 && p[1] == '\n' {
			s.newline()
			p = p[2:]
			continue
		}
		if n := colourLength(p); n > 0 {
			p = p[n:]
			continue
		}
		s.control(p[0])
		p = p[1:]
	}
}

// maxColour limits the search for the end of a sequence that selects colours, in bytes.
const maxColour = 256

// colourLength returns the length of the sequence at the start of p if it only selects colours, as most do; 0: it is
// another sequence, or incomplete.
func colourLength(p []byte) int {
	if len(p) < 3 || p[0] != 0x1b || p[1] != '[' {
		return 0
	}
	for i, c := range p[2:min(len(p), maxColour)] {
		switch {
		case c == 'm':
			return i + 3
		case c < '0' || c > ';':
			return 0
		}
	}
	return 0
}

// Finish ends the output: an incomplete character becomes U+FFFD.
func (s *Screen) Finish() {
	if len(s.partial) > 0 {
		s.printUTF8(s.partial, false)
		s.partial = s.partial[:0]
	}
}

// Len returns the number of bytes that AppendTo appends.
func (s *Screen) Len() int {
	n := s.main.len()
	if s.alt != nil {
		n += 1 + s.alt.len()
	}
	return n
}

// AppendTo appends the text that can still change. It follows the text that the scrollback has received.
func (s *Screen) AppendTo(dst []byte) []byte {
	dst = s.main.appendTo(dst)
	if s.alt != nil {
		dst = s.alt.appendTo(append(dst, '\n'))
	}
	return dst
}

func (g *grid) len() int {
	n := g.n - 1
	for y := range g.n {
		n += len(g.at(y).text)
	}
	return n
}

func (g *grid) appendTo(dst []byte) []byte {
	for y := range g.n {
		if y > 0 {
			dst = append(dst, '\n')
		}
		dst = append(dst, g.at(y).text...)
	}
	return dst
}

// control executes a C0 control character or DEL.
func (s *Screen) control(c byte) {
	switch c {
	case '\r':
		s.g.home()
	case '\n', '\v', '\f':
		s.newline()
	case '\b':
		s.g.moveLeft()
	case '\t':
		s.g.tab()
		s.limitRow()
	case 0x1b:
		s.seq.Start()
	}
}

// newline moves to the start of the next row, and scrolls at the bottom.
func (s *Screen) newline() {
	g := s.g
	switch {
	case g.y == g.bottom:
		s.scroll(1)
	case g.y < Rows-1:
		g.y++
		g.extend(g.y)
	}
	g.home()
}

// scroll moves the scroll region up by n rows; rows that leave the top of the main screen can no longer change.
func (s *Screen) scroll(n int) {
	g := s.g
	n = min(n, g.bottom-g.top+1)
	if g.top > 0 {
		y := g.y
		g.deleteLines(g.top, n)
		g.y = y
		return
	}
	g.extend(g.bottom)
	for range n {
		r := g.at(0)
		if g == s.main {
			s.flushRow(r)
		}
		r.clear()
		if g.head++; g.head == Rows {
			g.head = 0
		}
		// All rows have moved up by one. Rows below the scroll region move back.
		g.at(g.n - 1).clear()
		for y := g.n - 1; y > g.bottom; y-- {
			g.swap(y, y-1)
		}
	}
}

// flushRow passes a row to the scrollback as a line. The caller must clear it.
func (s *Screen) flushRow(r *row) {
	r.text = append(r.text, '\n')
	s.scrollback.Write(r.text)
}

// limitRow passes the beginning of a line that is too long to the scrollback, after the rows above it.
func (s *Screen) limitRow() {
	g := s.g
	r := g.cursorRow()
	if len(r.text) <= rowMax || (g.pos != len(r.text) && len(r.text) <= 2*rowMax) {
		return
	}
	if g == s.main {
		for y := range g.y {
			s.flushRow(g.at(y))
			g.at(y).clear()
		}
		s.scrollback.Write(r.text)
	}
	r.clear()
	if g == s.main {
		g.head = (g.head + g.y) % Rows
		g.n -= g.y
		g.y = 0
	}
	g.home()
}

// clearScreen passes the content of the main screen to the scrollback, or erases the alternate screen.
func (s *Screen) clearScreen() {
	g := s.g
	if g == s.main {
		n := g.n
		for n > 0 && g.at(n-1).blank() {
			n--
		}
		for y := range n {
			s.flushRow(g.at(y))
		}
	}
	g.clear()
}

// print prints text without control characters.
func (s *Screen) print(seg []byte, ascii bool) {
	s.g.print(seg, ascii)
	s.limitRow()
	k := len(seg) - 1
	for k > 0 && seg[k]&0xc0 == 0x80 {
		k--
	}
	s.lastLen = copy(s.last[:], seg[k:])
}

// printUTF8 prints text with bytes outside of ASCII. Each byte that is not UTF-8 becomes U+FFFD; C1 controls are
// dropped. last: the end of seg may be an incomplete character.
func (s *Screen) printUTF8(seg []byte, last bool) {
	if last {
		cut := escape.WholeRunes(seg)
		s.partial = append(s.partial[:0], seg[cut:]...)
		seg = seg[:cut]
	}
	if !isCleanUTF8(seg) {
		s.scratch = scrub(s.scratch[:0], seg)
		seg = s.scratch
	}
	if len(seg) > 0 {
		s.print(seg, false)
	}
}

// isCleanUTF8 reports whether text is valid UTF-8 without C1 controls.
func isCleanUTF8(p []byte) bool {
	if !utf8.Valid(p) {
		return false
	}
	for i := range p {
		if p[i] == 0xc2 && p[i+1] < 0xa0 {
			return false
		}
	}
	return true
}

func scrub(dst, p []byte) []byte {
	for len(p) > 0 {
		c, size := utf8.DecodeRune(p)
		if c < 0x80 || c >= 0xa0 {
			dst = utf8.AppendRune(dst, c)
		}
		p = p[size:]
	}
	return dst
}

// textRun returns the number of bytes at the start of p that are not control characters, and whether all of them are
// ASCII.
func textRun(p []byte) (n int, ascii bool) {
	const (
		ones = 0x0101010101010101
		tops = 0x8080808080808080
	)
	var seen uint64
	for n+8 <= len(p) {
		x := binary.LittleEndian.Uint64(p[n:])
		del := x ^ (0x7f * ones)
		stop := ((x - 0x20*ones) &^ x & tops) | ((del - ones) &^ del & tops)
		if stop != 0 {
			// A borrow affects only bytes after the first stop.
			k := bits.TrailingZeros64(stop) / 8
			seen |= x & (1<<(8*k) - 1)
			return n + k, seen&tops == 0
		}
		seen |= x
		n += 8
	}
	for n < len(p) && p[n] >= 0x20 && p[n] != 0x7f {
		seen |= uint64(p[n])
		n++
	}
	return n, seen&tops == 0
}
