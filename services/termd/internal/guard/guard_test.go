//go:build unix

package guard

import (
	"io"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"

	marks "github.com/acphost/acphost/services/termd/internal/command"
)

// nobody is a number that no session has: it is above every kernel's largest process id.
const nobody = 5_000_000

func TestGuard_KnowsSessionsBeforeStart(t *testing.T) {
	g := &Guard{sessions: map[int]bool{nobody: true, nobody + 1: true}}
	readEnd, pipe, rest, err := g.newPipe()
	if err != nil {
		t.Fatal(err)
	}
	defer readEnd.Close()
	if rest != "" {
		t.Errorf("%q found no room", rest)
	}
	if err := pipe.Close(); err != nil { // as when this process is killed
		t.Fatal(err)
	}
	received, err := io.ReadAll(readEnd)
	lines := strings.Fields(string(received))
	slices.Sort(lines)
	if want := []string{"+5000000", "+5000001"}; err != nil || !slices.Equal(lines, want) {
		t.Errorf("it receives %q (%v), want %q", lines, err, want)
	}
}

func TestGuard_FrozenIsReplaced(t *testing.T) {
	g, err := Start(marks.NewMark("ACPHOST_TEST_GUARD_"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	first := g.PID()
	testkit.Freeze(t, first)
	added := 0
	replaced := testkit.Poll(func() bool {
		for range 1000 { // more than a pipe holds, in the end
			g.Add(nobody + added%50)
			added++
		}
		return g.PID() != first
	})
	if !replaced {
		_ = syscall.Kill(first, syscall.SIGKILL)
		t.Fatal("a guard that is stopped stays")
	}
	testkit.Eventually(t, "the guard has a successor", func() bool { return g.PID() != 0 && g.PID() != first })
}
