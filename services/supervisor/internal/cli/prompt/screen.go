package prompt

import (
	"io"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// screen is standard output: text that scrolls by and, while something is asked, one line below it that stays. It is for
// one goroutine. The first error of a write is kept, and nothing is written after it.
type screen struct {
	out   io.Writer
	width func() int // columns; nil: not known
	dumb  bool       // it cannot erase

	err     error
	line    string // the line below, as it is asked for
	passing bool   // the line below is a status line
	drawn   bool
	open    bool   // the last line of the text is not whole
	held    string // text whose last line is not whole, while there is a line below
}

// print adds text.
func (s *screen) print(text string) {
	if text == "" {
		return
	}
	s.clear()
	s.open = !strings.HasSuffix(text, "\n")
	if s.line == "" {
		s.write(text)
		return
	}
	s.held += text
	whole := s.held[:strings.LastIndexByte(s.held, '\n')+1]
	if whole == "" {
		return
	}
	s.held = s.held[len(whole):]
	s.erase()
	s.write(whole)
	s.draw()
}

// ask shows a line below the text, which must have ended its last line; "": no more.
func (s *screen) ask(line string) {
	s.clear()
	if line == s.line {
		return
	}
	s.erase()
	s.line = line
	if line == "" {
		held := s.held
		s.held = ""
		s.write(held)
		return
	}
	s.draw()
}

// status shows a line below the text that goes away as soon as anything else is shown. It is not shown while something is
// asked, behind a line of text that is not whole, or where it could not be erased.
func (s *screen) status(line string) {
	if s.line != "" && !s.passing || s.open || s.dumb {
		return
	}
	s.erase()
	s.line, s.passing = line, line != ""
	if line != "" {
		s.draw()
	}
}

// clear takes a status line away.
func (s *screen) clear() {
	if s.passing {
		s.status("")
	}
}

func (s *screen) draw() {
	line := s.line
	if s.width != nil {
		if w := s.width(); w > 1 {
			line = safetext.Fit(line, w-1) // a full line would make the terminal go on to the next
		}
	}
	s.write(line)
	s.drawn = true
}

func (s *screen) erase() {
	switch {
	case !s.drawn:
	case s.dumb:
		s.write("\n")
	default:
		s.write("\r\x1b[K")
	}
	s.drawn = false
}

func (s *screen) write(text string) {
	if s.err == nil && text != "" {
		_, s.err = io.WriteString(s.out, text)
	}
}
