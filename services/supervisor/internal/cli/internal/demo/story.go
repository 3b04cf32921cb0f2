package demo

import (
	"fmt"
	"io"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// story prints the steps for the user.
type story struct {
	out   io.Writer
	color bool
	err   error // the first write error
	took  time.Duration
	count int
}

// The colours by their meaning.
const (
	bold   = "1"
	dim    = "2"
	green  = "32"
	yellow = "33"
	red    = "31"
	cyan   = "36"
)

func (s *story) title(root string) {
	s.print("%s\n", s.paint(bold, "One turn of a scripted agent, with the real supervisor and its three daemons"))
	s.print("%s\n\n", s.paint(dim, "workspace "+root))
}

func (s *story) ready(d time.Duration) {
	s.print("  %s  fsd, termd and permd are ready, each a process of its own (%s)\n", s.paint(green, "acphost"), short(d))
}

func (s *story) notice(text string) { s.print("    %s\n", s.paint(bold, "! "+text)) }

func (s *story) prompt(text string) { s.print("\n  %s      %s\n", s.paint(bold, "you"), text) }

func (s *story) say(text string) { s.print("\n  %s    %s\n", s.paint(cyan, "agent"), text) }

func (s *story) step(title string) {
	s.print("\n  %s    %s\n", s.paint(cyan, "agent"), s.paint(bold, title))
}

// request prints one request: its subject, the handler that answered, the latency, and the answer.
func (s *story) request(method, about, answeredBy string, took time.Duration, answer string) {
	s.took += took
	s.count++
	if about != "" {
		about = "  " + about
	}
	s.print("    %s%s\n", s.paint(yellow, "→ "+method), about)
	s.print("    %s %s\n", s.paint(green, fmt.Sprintf("← %-5s %7s", answeredBy, short(took))), answer)
}

// end prints the end, and returns the first write error. processes is the number of processes that were confirmed to
// have ended, or 0 if they were not counted.
func (s *story) end(processes int) error {
	left := "."
	if processes > 0 {
		left = fmt.Sprintf(", and none of %d processes is left.", processes)
	}
	s.print("\n  %s  The turn is over. notes.md on disk holds the edit%s\n", s.paint(green, "acphost"), left)
	s.print("           %d requests were answered by a daemon of their own over gRPC, in %s all together.\n\n", s.count, short(s.took))
	s.print("%s\n", s.paint(dim, "Next: \"acphost setup zed\" (or jetbrains, neovim, emacs) has your editor run its agents like this."))
	return s.err
}

func (s *story) failed(err error) { s.print("\n  %s   %v\n", s.paint(red, "failed"), err) }

func (s *story) print(format string, args ...any) {
	if _, err := fmt.Fprintf(s.out, format, args...); err != nil && s.err == nil {
		s.err = fmt.Errorf("print the story: %w", err)
	}
}

func (s *story) paint(color, text string) string { return safetext.Paint(s.color, color, text) }

// short rounds a duration for display.
func short(d time.Duration) string {
	switch {
	case d >= 10*time.Millisecond:
		return d.Round(time.Millisecond).String()
	case d >= time.Millisecond:
		return d.Round(100 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Microsecond).String()
	}
}
