package barrage

import (
	"bytes"
	"fmt"
	"strings"
)

const (
	traceLines = 4096 // kept lines
	traceShown = 24   // shown lines
	traceBytes = 240  // bytes of a line
)

// trace has the most recent lines. It shows the lines about one subject, and the last lines.
type trace struct {
	lines [traceLines]string
	next  int
	about string
}

func (t *trace) add(side, direction string, line []byte) {
	line = bytes.TrimRight(line, "\n")
	more := ""
	if len(line) > traceBytes {
		more = fmt.Sprintf("… (%d bytes)", len(line))
		line = line[:traceBytes]
	}
	t.lines[t.next%traceLines] = side + " " + direction + " " + string(line) + more
	t.next++
}

// freeze sets the subject for which the trace is shown.
func (t *trace) freeze(about string) { t.about = about }

// String returns the trace as text.
func (t *trace) String() string {
	var about, last []string
	for i := max(0, t.next-traceLines); i < t.next; i++ {
		line := t.lines[i%traceLines]
		if t.about != "" && strings.Contains(line, t.about) {
			about = append(about, line)
		}
		if i >= t.next-traceShown {
			last = append(last, line)
		}
	}
	if len(about) > traceShown {
		about = about[len(about)-traceShown:]
	}
	text := "the last lines (> sent, < got):\n  " + strings.Join(last, "\n  ")
	if len(about) > 0 {
		text = "lines with " + t.about + ":\n  " + strings.Join(about, "\n  ") + "\n" + text
	}
	return text
}
