package render

import (
	"fmt"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/escape"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Limits of the lines of a terminal that are shown at once, and at its end.
const (
	headLines = 20
	tailLines = 20
)

// Limits of the end of a terminal's output that is stored for Tail and Omitted.
const (
	keptLines = 1000
	keptBytes = 256 << 10
)

// terminal is the output of a terminal, line by line.
type terminal struct {
	screen screen
	shown  int      // lines that were shown at once
	tail   []string // the newest lines that were not shown
	size   int      // bytes of tail
	hidden int      // lines that were dropped from tail
	ended  bool
}

// output processes a piece of a terminal's output and returns the lines to show.
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
		t.tail = append(t.tail, line)
		t.size += len(line)
		for len(t.tail) > keptLines || t.size > keptBytes && len(t.tail) > tailLines {
			t.size -= len(t.tail[0])
			t.tail = t.tail[1:]
			t.hidden++
		}
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
	over := max(len(t.tail)-tailLines, 0)
	if n := t.hidden + over; n > 0 {
		lines = append(lines, o.paint(dim, fmt.Sprintf("… %s left out", safetext.Count(n, "line"))))
	}
	lines = append(lines, t.tail[over:]...)
	t.tail = t.tail[:over]
	return append(lines, exitLine(o, out))
}

// last returns the last lines that output has not returned, including an incomplete one.
func (t *terminal) last(o Options, limit int) (lines []string, hidden int) {
	lines = t.tail
	if now := painted(o, t.screen.line); now != "" {
		lines = append(slices.Clip(lines), now)
	}
	n := max(len(lines)-limit, 0)
	return lines[n:], t.hidden + n
}

// showToolOutput shows the output of a command that the agent ran itself, after its tool call has ended.
func (r *Renderer) showToolOutput(t *tool) string {
	if t.output || !client.ToolCallEnded(t.call.GetStatus()) {
		return ""
	}
	o := client.ShownOutput(t.call, func(id string) bool {
		_, known := r.terminals.Get(id)
		t.output = t.output || known // the terminal shows it, even if the tool call does not refer to it any more
		return known
	})
	if o == nil {
		return ""
	}
	t.output = true
	var lines []string
	shown := &terminal{}
	for _, out := range OutputOf(o) {
		lines = append(lines, shown.output(r.o, out)...)
	}
	if o.ExitCode == nil && o.GetSignal() == "" {
		lines = lines[:len(lines)-1] // its result is unknown
	}
	var b strings.Builder
	for _, l := range lines {
		b.WriteString(r.barred(toolIndent+r.o.paint(dim, "│")+" ", l))
	}
	return b.String()
}

// OutputOf converts the output of a command that an agent ran itself to the events of a terminal, including its end.
func OutputOf(o *supervisorv1.ToolOutput) []*supervisorv1.WatchOutputResponse {
	return []*supervisorv1.WatchOutputResponse{
		{Data: []byte(o.GetText())},
		{Missed: o.GetOmitted(), Data: []byte(o.GetTail()), Ended: true, ExitCode: o.ExitCode, Signal: o.GetSignal()},
	}
}

func exitLine(o Options, out *supervisorv1.WatchOutputResponse) string {
	text, failed := Exit(out)
	if failed {
		return o.paint(red, text)
	}
	return o.paint(dim, text)
}

// Exit describes the result of a command for users: "exit code 1". It also reports whether the command failed.
func Exit(out *supervisorv1.WatchOutputResponse) (text string, failed bool) {
	switch {
	case out.ExitCode != nil:
		return fmt.Sprintf("exit code %d", out.GetExitCode()), out.GetExitCode() != 0
	case out.GetSignal() != "":
		return "ended by " + safetext.Line(out.GetSignal()), true
	}
	return "ended", false
}

func painted(o Options, line []fragment) string {
	var b strings.Builder
	for _, f := range line {
		b.WriteString(o.paint(f.style, safetext.Text(f.text)))
	}
	return b.String()
}

// screen parses the output of a command for a terminal into coloured lines. It drops all other control sequences. After
// a carriage return, new text replaces the line, as in progress bars.
type screen struct {
	scan  escape.Scanner
	style style
	line  []fragment
	size  int // bytes of line; above maxCode, text was dropped, which the end of the line states
	cr    bool
}

// reset discards incomplete input, because some output is missing.
func (s *screen) reset() { s.scan, s.style = escape.Scanner{}, normal }

// write processes bytes and calls ended for each complete line.
func (s *screen) write(data []byte, ended func([]fragment)) {
	for t := range s.scan.Scan(data) {
		switch {
		case t.Sequence != nil:
			if t.Sequence.Control && t.Sequence.Final == 'm' {
				s.colour(string(t.Sequence.Params))
			}
		case t.Control == '\n':
			ended(s.rest())
		case t.Control == '\r':
			s.cr = true
		case t.Control == '\t':
			s.put("    ")
		default:
			s.put(t.Text)
		}
	}
}

// put adds text to the line. It drops text above the limit of a line.
func (s *screen) put(text string) {
	if text == "" {
		return
	}
	if s.cr {
		s.cr, s.line, s.size = false, nil, 0
	}
	if s.size > maxCode {
		return
	}
	if cut, over := safetext.Prefix(text, maxCode-s.size); over {
		text, s.size = cut+"…", maxCode+1
	} else {
		s.size += len(text)
	}
	if n := len(s.line); n > 0 && s.line[n-1].style == s.style {
		s.line[n-1].text += text
		return
	}
	s.line = append(s.line, fragment{s.style, text})
}

// rest returns the current line and begins a new one.
func (s *screen) rest() []fragment {
	line := s.line
	s.line, s.size, s.cr = nil, 0, false
	return line
}

// colour sets the style by the parameters of a sequence, if they are one of the 16 colours or a supported attribute.
func (s *screen) colour(params string) {
	skip := 0
	for part := range strings.SplitSeq(params, ";") {
		n := 0
		for _, c := range part {
			if c < '0' || c > '9' || n > 999 {
				n = -1
				break
			}
			n = n*10 + int(c-'0')
		}
		if skip > 0 {
			if skip--; skip == 1 { // after 38 or 48: "5;N" or "2;R;G;B"
				skip = map[int]int{5: 1, 2: 3}[n]
			}
			continue
		}
		s.attribute(n, &skip)
	}
}

// attributes maps parameters to the attributes that they set and clear.
var attributes = map[int]struct{ on, off style }{
	0: {off: ^normal},
	1: {on: bold}, 2: {on: dim}, 3: {on: italic}, 4: {on: underline}, 9: {on: strike},
	22: {off: bold | dim}, 23: {off: italic}, 24: {off: underline}, 29: {off: strike},
	30: {off: colours}, 37: {off: colours}, 39: {off: colours}, 90: {off: colours}, 97: {off: colours},
}

const colours = red | green | yellow | blue | magenta | cyan

func (s *screen) attribute(n int, skip *int) {
	switch {
	case n >= 31 && n <= 36, n >= 91 && n <= 96:
		s.style = s.style&^colours | red<<(n%10-1)
	case n == 38, n == 48, n == 58:
		*skip = 2
	default:
		a := attributes[n]
		s.style = s.style&^a.off | a.on
	}
}
