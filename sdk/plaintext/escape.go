package plaintext

import "github.com/acphost/acphost/internal/escape"

const (
	maxParams = 16
	maxParam  = 1 << 15
)

// escape parses the next bytes of an escape sequence and returns their number.
func (s *Screen) escape(p []byte) int {
	for i, c := range p {
		switch s.seq.Feed(c) {
		case escape.More:
			continue
		case escape.Obey:
			s.control(c)
			continue
		case escape.Broken:
			return i
		case escape.Whole:
			if s.seq.Control {
				s.controlSequence()
			} else {
				s.escaped(s.seq.Final)
			}
		}
		return i + 1
	}
	return len(p)
}

// escaped executes a sequence of one byte after ESC.
func (s *Screen) escaped(c byte) {
	g := s.g
	switch c {
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
	}
}

// params are the numbers in a control sequence, at least one; a missing number is 0.
type params struct {
	numbers [maxParams]int
	n       int
}

// param returns the i-th parameter, or def if it is 0 or missing.
func (p *params) param(i, def int) int {
	if i >= p.n || p.numbers[i] == 0 {
		return def
	}
	return p.numbers[i]
}

// controlSequence executes a control sequence.
func (s *Screen) controlSequence() {
	if s.seq.Final == 'm' {
		return // colours, the most frequent sequences
	}
	p := params{n: 1}
	private := byte(0)
	for _, c := range s.seq.Params {
		switch {
		case c < '0': // an intermediate byte: a different sequence
			return
		case c <= '9':
			n := &p.numbers[p.n-1]
			*n = min(10**n+int(c-'0'), maxParam)
		case c == ';' || c == ':':
			p.n = min(p.n+1, maxParams)
		default:
			private = c
		}
	}
	switch private {
	case 0:
		s.dispatch(s.seq.Final, &p)
	case '?':
		s.mode(s.seq.Final, p.numbers[:p.n])
	}
}

// dispatch executes a control sequence that moves, erases or inserts.
func (s *Screen) dispatch(c byte, p *params) {
	g := s.g
	n := p.param(0, 1)
	switch c {
	case 'A':
		g.moveTo(g.y-n, g.column())
	case 'B', 'e':
		g.moveTo(g.y+n, g.column())
	case 'C', 'a':
		g.forward(n)
	case 'D':
		for range min(n, Columns) {
			g.moveLeft()
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
		g.moveTo(n-1, p.param(1, 1)-1)
	case 'J':
		s.eraseScreen(p.param(0, 0))
	case 'K':
		g.eraseRow(p.param(0, 0))
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
		top, bottom := n-1, min(p.param(1, Rows), Rows)-1
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
	if len(r.text) <= rowMax { // otherwise it could grow without limit
		tail := append([]byte(nil), r.text[g.pos:]...)
		r.text = append(append(r.text[:g.pos], spaces(n)...), tail...)
	}
}

// mode switches the alternate screen; no other mode leaves text.
func (s *Screen) mode(c byte, modes []int) {
	if c != 'h' && c != 'l' {
		return
	}
	for _, m := range modes {
		switch m {
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
