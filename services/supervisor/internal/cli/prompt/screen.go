package prompt

import (
	"io"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// screen is standard output: text and, during a question, one line below it. It is not safe for concurrent use. It
// stores the first write error, and writes nothing after it.
type screen struct {
	out   io.Writer
	width func() int // columns; nil: unknown
	dumb  bool       // the terminal cannot erase

	err        error
	line       string // the line below the text
	passing    bool   // the line below is a status line
	drawn      bool
	open       bool   // the last line of the text is incomplete
	incomplete string // text whose last line is incomplete, while there is a line below
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
	s.incomplete += text
	whole := s.incomplete[:strings.LastIndexByte(s.incomplete, '\n')+1]
	if whole == "" {
		return
	}
	s.incomplete = s.incomplete[len(whole):]
	s.erase()
	s.write(whole)
	s.draw()
}

// ask shows a line below the text, which must end with a line feed. An empty line removes it.
func (s *screen) ask(line string) {
	s.clear()
	if line == s.line {
		return
	}
	s.erase()
	s.line = line
	if line == "" {
		held := s.incomplete
		s.incomplete = ""
		s.write(held)
		return
	}
	s.draw()
}

// status shows a line below the text that is removed before other output. It is not shown during a question, after an
// incomplete line of text, or if it could not be erased.
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

// clear removes a status line.
func (s *screen) clear() {
	if s.passing {
		s.status("")
	}
}

func (s *screen) draw() {
	line := s.line
	if s.width != nil {
		if w := s.width(); w > 1 {
			line = safetext.Fit(line, w-1) // a full line would move the cursor to the next one
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
