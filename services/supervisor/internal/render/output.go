package render

import (
	"fmt"
	"strings"
	"unicode/utf8"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// How many lines of a terminal are shown as they come, and how many of its last ones at its end.
const (
	headLines = 20
	tailLines = 20
)

// terminal is what a terminal shows, line by line.
type terminal struct {
	screen screen
	shown  int      // lines that were shown as they came
	tail   []string // the newest of those that were not
	hidden int      // lines dropped from tail
	ended  bool
}

// output takes a piece of a terminal's output and returns the lines that are shown of it.
func (t *terminal) output(o Options, out *supervisorv1.WatchOutputResponse) []string {
	if t.ended {
		return nil
	}
	var lines []string
	put := func(line string) {
		if t.shown < headLines {
			t.shown++
			lines = append(lines, line)
			return
		}
		if len(t.tail) == tailLines {
			copy(t.tail, t.tail[1:])
			t.tail = t.tail[:tailLines-1]
			t.hidden++
		}
		t.tail = append(t.tail, line)
	}
	if n := out.GetMissed(); n > 0 {
		t.screen.reset()
		put(o.paint(dim, fmt.Sprintf("[%s bytes are missing]", safetext.Number(n))))
	}
	t.screen.write(out.GetData(), func(line []fragment) { put(painted(o, line)) })
	if !out.GetEnded() {
		return lines
	}
	t.ended = true
	if last := t.screen.rest(); len(last) > 0 {
		put(painted(o, last))
	}
	if t.hidden > 0 {
		lines = append(lines, o.paint(dim, fmt.Sprintf("… %s left out", safetext.Count(t.hidden, "line"))))
	}
	lines = append(lines, t.tail...)
	t.tail = nil
	return append(lines, exitLine(o, out))
}

func exitLine(o Options, out *supervisorv1.WatchOutputResponse) string {
	switch {
	case out.ExitCode != nil && out.GetExitCode() == 0:
		return o.paint(dim, "exit code 0")
	case out.ExitCode != nil:
		return o.paint(red, fmt.Sprintf("exit code %d", out.GetExitCode()))
	case out.GetSignal() != "":
		return o.paint(red, "ended by "+safetext.Line(out.GetSignal()))
	}
	return o.paint(dim, "ended")
}

func painted(o Options, line []fragment) string {
	var b strings.Builder
	for _, f := range line {
		b.WriteString(o.paint(f.style, safetext.Text(f.text)))
	}
	return b.String()
}

// screen reads what a command writes to a terminal: lines, in colours. Everything else that a terminal would obey is
// dropped; what a carriage return goes back over is what comes after it, as with progress bars.
type screen struct {
	state  screenState
	params []byte // of a control sequence
	style  style
	line   []fragment
	size   int // bytes in line
	cr     bool
	part   []byte // the beginning of a character
}

type screenState int

const (
	ground       screenState = iota
	escape                   // behind ESC
	intermediate             // behind ESC and a space to '/'
	control                  // in a control sequence
	text                     // in a string: a title, a link
	textEscape               // behind ESC in a string
)

// reset forgets what is unfinished: something is missing here.
func (s *screen) reset() { s.state, s.params, s.part, s.style = ground, nil, nil, normal }

// write takes bytes and hands over each line that ends.
func (s *screen) write(data []byte, ended func([]fragment)) {
	if len(s.part) > 0 {
		data = append(s.part, data...)
		s.part = nil
	}
	for len(data) > 0 {
		if s.state == ground && data[0] >= 0x20 && data[0] != 0x7f {
			n := 0
			for n < len(data) && data[n] >= 0x20 && data[n] != 0x7f {
				if data[n] >= utf8.RuneSelf && !utf8.FullRune(data[n:]) {
					s.part = append([]byte(nil), data[n:]...)
					break
				}
				_, size := utf8.DecodeRune(data[n:])
				n += size
			}
			s.put(string(data[:n]))
			data = data[n:]
			if s.part != nil {
				return
			}
			continue
		}
		s.take(data[0], ended)
		data = data[1:]
	}
}

// take takes one byte that is not text.
func (s *screen) take(c byte, ended func([]fragment)) {
	switch s.state {
	case ground:
		switch c {
		case 0x1b:
			s.state = escape
		case '\n':
			ended(s.rest())
		case '\r':
			s.cr = true
		case '\t':
			s.put("    ")
		}
	case escape:
		switch {
		case c == '[':
			s.state, s.params = control, s.params[:0]
		case strings.IndexByte("]PX^_", c) >= 0:
			s.state = text
		case c >= 0x20 && c <= 0x2f:
			s.state = intermediate
		case c != 0x1b:
			s.state = ground
		}
	case intermediate:
		if c < 0x20 || c > 0x2f {
			s.state = ground
		}
	case control:
		switch {
		case c >= 0x40 && c <= 0x7e:
			if c == 'm' {
				s.colour()
			}
			s.state = ground
		case c < 0x20 || c > 0x7e:
			s.state = ground
			s.take(c, ended)
		case len(s.params) < 64:
			s.params = append(s.params, c)
		}
	case text:
		switch c {
		case 0x07:
			s.state = ground
		case 0x1b:
			s.state = textEscape
		case '\n', 0x18, 0x1a: // nobody ends it
			s.state = ground
			s.take(c, ended)
		}
	case textEscape:
		s.state = ground
		if c != '\\' {
			s.state = escape
			s.take(c, ended)
		}
	}
}

// put adds text to the line. What is over a line's bound is dropped.
func (s *screen) put(text string) {
	if text == "" {
		return
	}
	if s.cr {
		s.cr, s.line, s.size = false, nil, 0
	}
	if s.size >= maxCode {
		return
	}
	text = string([]rune(text)) // each byte that is no character for itself, however it comes in pieces
	if cut, over := safetext.Prefix(text, maxCode-s.size); over {
		text, s.size = cut+"…", maxCode
	} else {
		s.size += len(text)
	}
	if n := len(s.line); n > 0 && s.line[n-1].style == s.style {
		s.line[n-1].text += text
		return
	}
	s.line = append(s.line, fragment{s.style, text})
}

// rest is the line so far; a new one begins.
func (s *screen) rest() []fragment {
	line := s.line
	s.line, s.size, s.cr = nil, 0, false
	return line
}

// colour sets the style by a sequence's parameters, as far as it is a colour of the sixteen or an attribute that agents'
// text may have.
func (s *screen) colour() {
	skip := 0
	for part := range strings.SplitSeq(string(s.params), ";") {
		n := 0
		for _, c := range part {
			if c < '0' || c > '9' || n > 999 {
				n = -1
				break
			}
			n = n*10 + int(c-'0')
		}
		if skip > 0 {
			if skip--; skip == 1 { // behind 38 or 48: "5;N" or "2;R;G;B"
				skip = map[int]int{5: 1, 2: 3}[n]
			}
			continue
		}
		s.attribute(n, &skip)
	}
}

func (s *screen) attribute(n int, skip *int) {
	const colours = red | green | yellow | blue | magenta | cyan
	switch {
	case n == 0:
		s.style = normal
	case n == 1:
		s.style |= bold
	case n == 2:
		s.style |= dim
	case n == 3:
		s.style |= italic
	case n == 4:
		s.style |= underline
	case n == 9:
		s.style |= strike
	case n == 22:
		s.style &^= bold | dim
	case n == 23:
		s.style &^= italic
	case n == 24:
		s.style &^= underline
	case n == 29:
		s.style &^= strike
	case n >= 31 && n <= 36:
		s.style = s.style&^colours | red<<(n-31)
	case n >= 91 && n <= 96:
		s.style = s.style&^colours | red<<(n-91)
	case n == 30, n == 37, n == 39, n == 90, n == 97:
		s.style &^= colours
	case n == 38, n == 48, n == 58:
		*skip = 2
	}
}
