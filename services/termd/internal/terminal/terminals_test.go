package terminal

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/termd/internal/command"
)

func itoa(n int) string { return strconv.Itoa(n) }

func TestTerminal_BelongsToScope(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "echo x"))
	if _, err := s.Get(scopeB, term.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("another scope got %v", err)
	}
	if err := s.Release(scopeB, term.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("another scope released it: %v", err)
	}
	if _, err := s.Get(scopeA, term.ID()); err != nil {
		t.Errorf("its own scope got %v", err)
	}
	for _, id := range []string{"", "x", IDPrefix, IDPrefix + strings.Repeat("0", 32), strings.ToUpper(term.ID()), term.ID() + "0"} {
		if err := s.Release(scopeA, id); !errors.Is(err, ErrUnknown) {
			t.Errorf("release of %q: got %v", id, err)
		}
	}
}

func TestRelease_TwiceIsNoError(t *testing.T) {
	s := bench(t, Options{Retention: time.Nanosecond})
	term := create(t, s, line(t, "echo x"))
	must(t, s.Release(scopeA, term.ID()))
	must(t, s.Release(scopeA, term.ID()))
	testkit.Eventually(t, "the terminal is forgotten", func() bool { return len(s.List("")) == 0 })
	must(t, s.Release(scopeA, term.ID()))
	if _, err := s.Get(scopeA, term.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
	if err := s.Release(scopeB, term.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("another scope: got %v", err)
	}
}

func TestRelease_EndsWaits(t *testing.T) {
	s := bench(t, Options{Limits: &Limits{PerScope: 1, Output: 1 << 20, Total: 1 << 20, Grace: time.Hour}})
	term := create(t, s, line(t, "trap '' TERM; echo up; sleep 1000; sleep 1000"))
	shows(t, term, "up")
	got := make(chan string, 1)
	go func() {
		status, err := term.Wait(context.Background())
		if err != nil {
			got <- err.Error()
			return
		}
		got <- status.Signal
	}()
	must(t, s.Release(scopeA, term.ID()))
	if signal := <-got; signal != "SIGKILL" { // at once: nothing has to die for it, which would take the time of Grace
		t.Errorf("got %q", signal)
	}
}

func TestWait_CancelLeavesCommandRunning(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "echo up; sleep 1000"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := term.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v", err)
	}
	shows(t, term, "up")
	if term.Info().Exit != nil {
		t.Error("the command has ended")
	}
}

func TestWatch_AfterRelease(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "echo the end; exit 4"))
	_, _ = wait(t, term)
	must(t, s.Release(scopeA, term.ID()))
	if _, err := s.Get(scopeA, term.ID()); !errors.Is(err, ErrUnknown) {
		t.Errorf("its id still works: %v", err)
	}
	found, err := s.Find(scopeA, term.ID())
	must(t, err)
	var text strings.Builder
	must(t, found.Watch(soon(t), func(e Event) error { text.Write(e.Data); return nil }))
	if text.String() != "the end\r\n" {
		t.Errorf("got %q", text.String())
	}
	if list := s.List(scopeA); len(list) != 1 || !list[0].Released || list[0].Exit == nil || list[0].Exit.Code != 4 {
		t.Errorf("got %+v", list)
	}
	if list := s.List(scopeB); len(list) != 0 {
		t.Errorf("another scope lists %+v", list)
	}
}

func TestCreate_LimitPerSession(t *testing.T) {
	limits := DefaultLimits()
	limits.PerScope = 2
	s := bench(t, Options{Limits: &limits})
	first := create(t, s, line(t, "echo"))
	_ = create(t, s, line(t, "echo"))
	_, err := s.Create(scopeA, line(t, "echo"), 1)
	if !errors.Is(err, ErrTooMany) || !strings.Contains(err.Error(), "max_terminals_per_session") {
		t.Fatalf("got %v", err)
	}
	if _, err := s.Create(scopeB, line(t, "echo"), 1); err != nil {
		t.Errorf("another session: %v", err)
	}
	must(t, s.Release(scopeA, first.ID()))
	if _, err := s.Create(scopeA, line(t, "echo"), 1); err != nil {
		t.Errorf("after a release: %v", err)
	}
}

func TestCommand_WallTimeLimit(t *testing.T) {
	limits := DefaultLimits()
	limits.RunTime = 50 * time.Millisecond
	s := bench(t, Options{Limits: &limits})
	if status, _ := wait(t, create(t, s, line(t, "sleep 1000"))); status.Signal != "SIGTERM" {
		t.Errorf("got %v", status)
	}
}

func TestScopeEnd_EndsTerminalsBeingCreated(t *testing.T) {
	s := bench(t, Options{})
	plan := line(t, "exec sleep 1000")
	var makers sync.WaitGroup
	for range 8 {
		makers.Go(func() {
			for range 5 {
				if _, err := s.Create(scopeA, plan, 1); err != nil && !errors.Is(err, ErrEnded) {
					t.Error(err)
				}
			}
		})
	}
	for range 20 {
		s.ReleaseScope(scopeA)
	}
	makers.Wait()
	s.ReleaseScope(scopeA)
	for _, info := range s.List(scopeA) {
		if !info.Released {
			t.Errorf("%+v is alive", info)
		}
	}
}

func TestCreate_AfterCloseFails(t *testing.T) {
	s := bench(t, Options{})
	term := create(t, s, line(t, "sleep 1000"))
	s.Close()
	if _, err := s.Create(scopeA, line(t, "echo"), 1); !errors.Is(err, ErrEnded) {
		t.Errorf("got %v", err)
	}
	must(t, term.Kill(soon(t)))
}

func TestCreate_ReportsStartErrors(t *testing.T) {
	s := bench(t, Options{})
	plan := line(t, "x")
	for _, tt := range []struct {
		name, program, want string
	}{
		{"no such file", "/nope/nope", "missing"},
		{"no program", "/etc/passwd", "permission denied"},
		{"none", "", "no executable of that name in PATH"},
	} {
		plan.Program, plan.Args = tt.program, []string{"name"}
		_, err := s.Create(scopeA, plan, 1)
		if !errors.Is(err, command.ErrCannotStart) || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), `cannot start "name": `) {
			t.Errorf("%s: got %v", tt.name, err)
		}
	}
	if len(s.List("")) != 0 || len(s.scopes) != 0 || s.active != 0 {
		t.Error("something is left of what was not started")
	}
}
