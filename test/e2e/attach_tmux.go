package e2e

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/testkit"
)

// Told waits until these words are on the screen, or have scrolled away.
func (x *Terminal) Told(words ...string) {
	x.t.Helper()
	var all string
	if !testkit.Poll(func() bool {
		all = x.All()
		return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(all, w) })
	}) {
		x.t.Fatalf("the terminal does not show %q:\n%s", words, all)
	}
}
