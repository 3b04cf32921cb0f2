package terminal

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"

	"github.com/acphost/acphost/services/termd/internal/command"
)

const scopeA, scopeB = "0123456789abcdef0123456789abcdef", "fedcba9876543210fedcba9876543210"

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench makes terminals that leave nothing behind, or the test fails.
func bench(tb testing.TB, o Options) *Terminals {
	tb.Helper()
	o.Log = slog.New(slog.NewTextHandler(io.Discard, nil))
	o.Mark = command.NewMark(command.Mark + "TEST_")
	s := New(o)
	tb.Cleanup(func() {
		s.Close()
		if left, err := proc.WithEnviron(o.Mark); err != nil && !errors.Is(err, proc.ErrUnsupported) || len(left) > 0 {
			tb.Errorf("processes are left: %v (%v)", left, err)
		}
		if used := s.budget.Used(); used != 0 {
			tb.Errorf("%d bytes of output are still held", used)
		}
	})
	return s
}

// line plans a shell line in a fresh folder.
func line(tb testing.TB, text string, env ...command.Variable) command.Plan {
	tb.Helper()
	p, err := command.Resolve(command.Config{Environ: command.Inherit(os.Environ(), command.Filter{KeepAll: true})}, command.Request{
		Command: text, Args: nil, Env: env, Roots: []string{tb.TempDir()},
		Decided: &command.Argv{Args: []string{"sh", "-c", text}, Shell: true},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func create(tb testing.TB, s *Terminals, plan command.Plan) *Terminal {
	tb.Helper()
	t, err := s.Create(scopeA, plan, DefaultOutput)
	if err != nil {
		tb.Fatal(err)
	}
	return t
}

// wait waits for the end and returns how it was and the text.
func wait(tb testing.TB, t *Terminal) (proc.ExitStatus, string) {
	tb.Helper()
	status, err := t.Wait(soon(tb))
	if err != nil {
		tb.Fatalf("%q: wait: %v", t.plan.Args, err)
	}
	return status, t.output(1 << 30).Text
}

func soon(tb testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(context.Background(), testkit.Timeout(), errors.New("the timeout of the test has passed"))
	tb.Cleanup(cancel)
	return ctx
}

// shows waits until the terminal's text has the words in it, and returns the text.
func shows(tb testing.TB, t *Terminal, words string) string {
	tb.Helper()
	testkit.Eventually(tb, "output with "+strconv.Quote(words), func() bool { return strings.Contains(t.output(1<<30).Text, words) })
	return t.output(1 << 30).Text
}

// pids waits for "NAME=PID" in the output for each name.
func pids(tb testing.TB, t *Terminal, names ...string) []int {
	tb.Helper()
	var found []int
	for _, name := range names {
		text := shows(tb, t, name+"=")
		testkit.Eventually(tb, "a whole line of "+name, func() bool {
			text = t.output(1 << 30).Text
			return strings.Contains(text[strings.Index(text, name+"="):], "\n")
		})
		_, rest, _ := strings.Cut(text, name+"=")
		number, _, _ := strings.Cut(rest, "\n")
		pid, err := strconv.Atoi(number)
		if err != nil {
			tb.Fatalf("%q: %v", text, err)
		}
		found = append(found, pid)
	}
	return found
}

// live reports whether a process exists and is not a zombie.
func live(pid int) bool {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(data), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
