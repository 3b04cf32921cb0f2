package transcript

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// turns counts the turns of a session.
type turns struct {
	n     int
	open  bool
	since time.Time
}

func (t *turns) begin(at time.Time) {
	t.n++
	t.open, t.since = true, at
}

// end describes the end of a turn on one line.
func (t *turns) end(at time.Time, e *supervisorv1.TurnEnded) string {
	text := "a turn ended"
	if t.open {
		text = fmt.Sprintf("turn %d ended after %s", t.n, took(at.Sub(t.since)))
	}
	t.open = false
	switch {
	case e.GetError() != nil:
		return text + ": error"
	case e.GetStopReason() == "":
		return text
	}
	return text + ": " + safetext.Line(e.GetStopReason())
}

// took formats a duration.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "no time"
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

func counter(n int) string { return strconv.Itoa(n) }

// capital returns text with its first letter in upper case.
func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }
