package plaintext

// The states of the parser, after ECMA-48 and what xterm does.
const (
	ground   = iota
	escaped  // after ESC
	charset  // after ESC and an intermediate: one more
	control  // after CSI
	text     // in a string that ends with ST, or where bell allows it BEL
	textLast // in such a string, after ESC
)

const (
	maxParams  = 16
	maxParam   = 1 << 15
	maxControl = 256     // bytes of a control sequence; a longer one is none
	maxString  = 1 << 20 // bytes of a string; a longer one was never meant as one
)

// sequence is an escape sequence as far as it has come.
type sequence struct {
	state   int
	length  int
	params  [maxParams]int
	n       int  // params begun, at least 1
	private byte // '?', '>', '<', '='
	other   bool // has an intermediate, which makes it another sequence
	bell    bool
}

func (e *sequence) start() { *e = sequence{state: escaped, n: 1} }

// param is the i-th parameter, or def if it is 0 or not there.
func (e *sequence) param(i, def int) int {
	if i >= e.n || e.params[i] == 0 {
		return def
	}
	return e.params[i]
}

// escape takes a sequence further and returns how many bytes it took.
func (s *Screen) escape(p []byte) int {
	e := &s.esc
	for i, c := range p {
		if e.state == ground {
			return i
		}
		e.length++
		switch {
		case e.state == text || e.state == textLast:
			if !s.inString(c) {
				return i
			}
		case c == 0x1b:
			e.start()
		case c == 0x18 || c == 0x1a: // CAN, SUB
			e.state = ground
		case c < 0x20:
			s.control(c) // as if it stood before the sequence
		case c == 0x7f:
		case c >= 0x80:
			e.state = ground // no part of any sequence: a broken one ends before it
			return i
		case e.state == charset:
			if c >= 0x30 {
				e.state = ground
			}
		case e.state == escaped:
			s.escapeByte(c)
		default:
			s.controlByte(c)
		}
	}
	return len(p)
}

// inString takes a byte of a string; false: the string ended before it.
func (s *Screen) inString(c byte) bool {
	e := &s.esc
	switch {
	case e.state == textLast && c == '\\', c == 0x18, c == 0x1a, c == 0x07 && e.bell, e.length > maxString:
		e.state = ground
	case e.state == textLast:
		e.start() // not ST: another sequence, which ends the string
		return c == 0x1b || s.afterString(c)
	case c == 0x1b:
		e.state = textLast
	case c == '\n' && e.bell:
		// Window titles and links are on one line: this one was never ended, and the output goes on.
		e.state = ground
		return false
	}
	return true
}

// afterString takes the byte after an ESC that ended a string.
func (s *Screen) afterString(c byte) bool {
	if c < 0x20 || c >= 0x7f {
		return false
	}
	s.escapeByte(c)
	return true
}

// escapeByte takes the byte after ESC.
func (s *Screen) escapeByte(c byte) {
	e, g := &s.esc, s.g
	e.state = ground
	switch c {
	case '[':
		e.state = control
	case ']':
		e.state, e.bell = text, true
	case 'P', 'X', '^', '_':
		e.state = text
	case '7':
		g.saved = position{g.y, g.column()}
	case '8':
		g.moveTo(g.saved.y, g.saved.col)
	case 'D':
		col := g.column()
		s.newline()
		g.moveTo(g.y, col)
	case 'E':
		s.newline()
	case 'M':
		if g.y == g.top {
			col := g.column()
			g.insertLines(g.top, 1)
			g.moveTo(g.y, col)
		} else {
			g.moveTo(g.y-1, g.column())
		}
	case 'c':
		s.leaveAlternate()
		s.clearScreen()
		s.g.top, s.g.bottom = 0, Rows-1
	default:
		if c < 0x30 {
			e.state = charset
		}
	}
}

// controlByte takes a byte of a control sequence.
func (s *Screen) controlByte(c byte) {
	e := &s.esc
	switch {
	case e.length > maxControl:
		e.state = ground
	case c >= '0' && c <= '9':
		if i := e.n - 1; i < maxParams {
			e.params[i] = min(10*e.params[i]+int(c-'0'), maxParam)
		}
	case c == ';' || c == ':':
		e.n = min(e.n+1, maxParams)
	case c >= '<' && c <= '?':
		e.private = c
	case c < 0x30:
		e.other = true
	default:
		e.state = ground
		if e.other {
			return
		}
		switch e.private {
		case 0:
			s.dispatch(c)
		case '?':
			s.mode(c)
		}
	}
}

// dispatch does a control sequence that moves, erases or inserts.
func (s *Screen) dispatch(c byte) {
	e, g := &s.esc, s.g
	n := e.param(0, 1)
	switch c {
	case 'm': // colours: by far the most common
	case 'A':
		g.moveTo(g.y-n, g.column())
	case 'B', 'e':
		g.moveTo(g.y+n, g.column())
	case 'C', 'a':
		g.forward(n)
	case 'D':
		for range min(n, Columns) {
			g.back()
		}
	case 'E':
		g.moveTo(g.y+n, 0)
	case 'F':
		g.moveTo(g.y-n, 0)
	case 'G', '`':
		g.moveTo(g.y, n-1)
	case 'd':
		g.moveTo(n-1, g.column())
	case 'H', 'f':
		g.moveTo(n-1, e.param(1, 1)-1)
	case 'J':
		s.eraseScreen(e.param(0, 0))
	case 'K':
		g.eraseRow(e.param(0, 0))
	case 'X':
		g.eraseCells(g.pos, g.column(), min(n, Columns))
	case 'P':
		g.cursorRow().remove(g.pos, g.column(), min(n, Columns))
	case '@':
		if g.gap == 0 && g.pos < len(g.cursorRow().text) {
			g.insertBlanks(min(n, Columns))
		}
	case 'L', 'M':
		if g.y >= g.top && g.y <= g.bottom && c == 'L' {
			g.insertLines(g.y, n)
		} else if g.y >= g.top && g.y <= g.bottom {
			g.deleteLines(g.y, n)
		}
	case 'S':
		col := g.column()
		s.scroll(n)
		g.moveTo(g.y, col)
	case 'T':
		col := g.column()
		g.insertLines(g.top, n)
		g.moveTo(g.y, col)
	case 'b':
		for range min(n, Columns) {
			if s.lastLen > 0 {
				g.print(s.last[:s.lastLen], s.last[0] < 0x80)
			}
		}
		s.limitRow()
	case 'r':
		top, bottom := n-1, min(e.param(1, Rows), Rows)-1
		if top < bottom {
			g.top, g.bottom = top, bottom
			g.moveTo(0, 0)
		}
	case 's':
		g.saved = position{g.y, g.column()}
	case 'u':
		g.moveTo(g.saved.y, g.saved.col)
	}
}

func (s *Screen) eraseScreen(mode int) {
	g := s.g
	switch mode {
	case 0:
		g.eraseRow(0)
		g.n = g.y + 1
	case 1:
		for y := range g.y {
			g.at(y).clear()
		}
		g.eraseRow(1)
	case 2:
		s.clearScreen()
	}
}

func (g *grid) insertBlanks(n int) {
	r := g.cursorRow()
	if len(r.text) <= rowMax { // or it could be made to grow for ever
		tail := append([]byte(nil), r.text[g.pos:]...)
		r.text = append(append(r.text[:g.pos], spaces(n)...), tail...)
	}
}

// mode switches the alternate screen; no other mode leaves text.
func (s *Screen) mode(c byte) {
	if c != 'h' && c != 'l' {
		return
	}
	for i := range s.esc.n {
		switch s.esc.params[i] {
		case 47, 1047, 1049:
			if c == 'l' {
				s.leaveAlternate()
			} else if s.alt == nil {
				s.alt = newGrid()
				s.g = s.alt
			}
		}
	}
}

func (s *Screen) leaveAlternate() { s.alt, s.g = nil, s.main }
