package terminal

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// leftovers are commands that leave processes behind in every known way. Each prints "NAME=PID" for the processes that
// must be ended.
var leftovers = []struct {
	name, line string
	pids       []string
}{
	{"a command", "echo a=$$; exec sleep 1000", []string{"a"}},
	{"a child", "echo a=$$; sleep 1000 & echo b=$!; wait", []string{"a", "b"}},
	{"a process that ignores TERM", "trap '' TERM HUP; echo a=$$; while :; do sleep 1000; done", []string{"a"}},
	{"a stopped process", "echo a=$$; kill -STOP $$", []string{"a"}},
	{"an orphan", "(sleep 1000 & echo b=$!); echo a=$$; exec sleep 1000", []string{"a", "b"}},
	{"an orphan in its own session", "setsid -f sh -c 'echo b=$$; exec sleep 1000'; echo a=$$; exec sleep 1000", []string{"a", "b"}},
	{
		"an orphan in its own session that ignores TERM", "setsid -f sh -c 'trap \"\" TERM HUP; echo b=$$; sleep 1000; sleep 1000'; echo a=$$",
		[]string{"a", "b"},
	},
	{"an orphan with a clean environment", "(env -i sh -c 'trap \"\" TERM; echo b=$$; sleep 1000; sleep 1000' &) ; echo a=$$; exec sleep 1000", []string{"a", "b"}},
	{
		"a child in a session of its own with a clean environment that ignores TERM",
		"env -i setsid sh -c 'trap \"\" TERM; echo b=$$; sleep 1000; sleep 1000' & echo a=$$; wait", []string{"a", "b"},
	},
	{"a process of nohup", "nohup sleep 1000 >/dev/null & echo b=$!; echo a=$$; exec sleep 1000", []string{"a", "b"}},
}

func TestKill_EndsProcessTree(t *testing.T) {
	limits := DefaultLimits()
	limits.Grace = 300 * time.Millisecond
	s := bench(t, Options{Limits: &limits})
	for _, tt := range leftovers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			term := create(t, s, line(t, tt.line))
			all := pids(t, term, tt.pids...)
			must(t, term.Kill(soon(t)))
			for i, pid := range all {
				if live(pid) {
					t.Errorf("%s=%d is alive", tt.pids[i], pid)
				}
			}
			if term.output(1<<20).Exit == nil {
				t.Error("the end is not known after the kill")
			}
			if _, err := s.Get(scopeA, term.ID()); err != nil {
				t.Errorf("the id is void after the kill: %v", err)
			}
			must(t, term.Kill(soon(t))) // again is no error
		})
	}
}

func TestRelease_EndsProcessTree(t *testing.T) {
	limits := DefaultLimits()
	limits.Grace = 300 * time.Millisecond
	s := bench(t, Options{Limits: &limits})
	for _, tt := range leftovers {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			term := create(t, s, line(t, tt.line))
			all := pids(t, term, tt.pids...)
			must(t, s.Release(scopeA, term.ID()))
			for _, pid := range all {
				testkit.Eventually(t, "the death of "+tt.name, func() bool { return !live(pid) })
			}
		})
	}
}

func TestKill_SIGTERMLetsCommandCleanUp(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "trap 'echo cleaning; exit 9' TERM; echo ready; while :; do sleep 0.05; done"))
	shows(t, term, "ready")
	must(t, term.Kill(soon(t)))
	out := term.output(1 << 20)
	if !strings.HasSuffix(out.Text, "cleaning\n") || out.Exit == nil || out.Exit.Code != 9 {
		t.Errorf("got %q, %v", out.Text, out.Exit)
	}
}

func TestExit_GrandchildHoldsTerminal(t *testing.T) {
	s := bench(t, Options{})
	for _, tt := range []struct{ name, line string }{
		{"silent", "sleep 1000 & echo b=$!; echo done"},
		{"writing without end", "yes & echo b=$!; echo done"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			term := create(t, s, line(t, tt.line))
			status, text := wait(t, term)
			if status.Code != 0 || !strings.Contains(text, "done\n") {
				t.Errorf("got %v %.200q", status, text)
			}
			if err := term.Watch(soon(t), func(Event) error { return nil }); err != nil {
				t.Errorf("the watcher is not notified of the end: %v", err)
			}
			pid := pids(t, term, "b")[0]
			if !live(pid) {
				t.Error("the background process was ended with the command")
			}
			must(t, term.Kill(soon(t)))
			if live(pid) {
				t.Error("the background process is alive after the kill")
			}
		})
	}
}

func TestKill_ContinuesWithoutCaller(t *testing.T) {
	limits := DefaultLimits()
	limits.Grace = 300 * time.Millisecond
	s := bench(t, Options{Limits: &limits})
	term := create(t, s, line(t, "trap '' TERM; echo a=$$; sleep 1000; sleep 1000"))
	pid := pids(t, term, "a")[0]
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := term.Kill(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	_, _ = wait(t, term)
	testkit.Eventually(t, "the end", func() bool { return !live(pid) })
}

func TestCommand_CannotSignalOthers(t *testing.T) {
	if err := proc.ConfineSupported(); err != nil {
		t.Skip(err)
	}
	s := bench(t, Options{})
	other := create(t, s, line(t, "echo a=$$; exec sleep 1000"))
	pid := pids(t, other, "a")[0]
	term := create(t, s, line(t, "kill -0 "+itoa(pid)+" 2>/dev/null || echo refused; sh -c 'sleep 1000 & kill $!' && echo own; kill -0 "+itoa(os.Getpid())+" 2>/dev/null || echo refused"))
	if _, got := wait(t, term); got != "refused\nown\nrefused\n" {
		t.Errorf("got %q", got)
	}
	limits := DefaultLimits()
	limits.Confinement.NoLandlock = true
	s.SetLimits(limits)
	term = create(t, s, line(t, "kill -0 "+itoa(pid)+" && echo allowed"))
	if _, got := wait(t, term); got != "allowed\n" {
		t.Errorf("without landlock: got %q", got)
	}
}

func TestTerminals_NeedFewThreads(t *testing.T) {
	s := bench(t, Options{})
	// Warm up: the threads that any program has.
	_, _ = wait(t, create(t, s, line(t, "echo")))
	before := threads(t)
	plan := line(t, "echo up; exec sleep 1000", command.Variable{Name: "ENV", Value: ""})
	var all []*Terminal
	for range 200 {
		all = append(all, create(t, s, plan))
	}
	waits := make(chan error, len(all))
	for _, term := range all {
		shows(t, term, "up")
		go func() { _, err := term.Wait(context.Background()); waits <- err }()
	}
	if now := threads(t); now > before+16 {
		t.Errorf("got %d threads, %d before 200 terminals", now, before)
	}
	s.ReleaseScope(scopeA)
	for range all {
		must(t, <-waits)
	}
}

func threads(t *testing.T) int {
	t.Helper()
	runtime.GC()
	entries, err := os.ReadDir("/proc/self/task")
	must(t, err)
	return len(entries)
}

func TestRelease_ReapsZombies(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "echo a=$$"))
	_, _ = wait(t, term)
	pid := term.Info().PID
	var ws syscall.WaitStatus
	must(t, s.Release(scopeA, term.ID()))
	testkit.Eventually(t, "the reaping", func() bool {
		_, err := os.Stat("/proc/" + itoa(pid))
		return err != nil
	})
	if _, err := syscall.Wait4(pid, &ws, syscall.WNOHANG, nil); !errors.Is(err, syscall.ECHILD) {
		t.Errorf("got %v, want no such child", err)
	}
}
