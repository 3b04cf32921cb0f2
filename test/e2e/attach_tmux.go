package e2e

import (
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
)

// Joins joins the one session of the demo agent that is open, in a terminal of its own.
func (p *Place) Joins(t testing.TB, flags ...string) *Terminal {
	t.Helper()
	x := p.Terminal(t, append([]string{Program("acphost"), "chat", "--attach", "demo-"}, flags...))
	x.Told("joined the session with Demo agent", "❯")
	return x
}

// Told waits until these words are on the screen, or have scrolled away.
func (x *Terminal) Told(words ...string) {
	x.t.Helper()
	var all string
	if !testkit.Poll(func() bool {
		all = x.All()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
	}) {
		x.t.Fatalf("the terminal was not told %q:\n%s", words, all)
	}
}
