package supervise

import (
	"context"
	"errors"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/testkit"
)

// lateAnswer returns a Ping that answers after a time.
func lateAnswer(after time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(after):
			return nil
		}
	}
}

func noAnswer(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestHealth_KeepsSlowHandler(t *testing.T) {
	for _, late := range []time.Duration{8 * time.Second, 19 * time.Second} {
		t.Run(late.String(), func(t *testing.T) {
			slow := newFake()
			slow.ping = lateAnswer(late)
			supervised(t, []*fake{slow}, func(t *testing.T, h *Handler, f *fleet) {
				time.Sleep(10 * time.Minute)
				wantState(t, h, Ready)
				if f.count() != 1 {
					t.Errorf("handler was started %d times, want 1", f.count())
				}
			})
		})
	}
}

func TestHealth_EndsHungHandler(t *testing.T) {
	hung, second := newFake(), newFake()
	pings := 0
	hung.ping = func(ctx context.Context) error {
		if pings++; pings == 1 {
			return nil
		}
		return noAnswer(ctx)
	}
	supervised(t, []*fake{hung, second}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(29900 * time.Millisecond) // the first check was answered at 5 s, the second began at 10 s
		wantState(t, h, Ready)
		time.Sleep(200 * time.Millisecond)
		wantState(t, h, Backoff)
		if !slices.Equal(hung.stopped(), []bool{true}) {
			t.Errorf("stops = %v, want one that kills: the process may be stopped", hung.stopped())
		}
		if got := h.Status().GetError(); !strings.Contains(got, "did not answer a health check within 20s") {
			t.Errorf("error = %q, want the missing answer", got)
		}
		if pings != 2 {
			t.Errorf("%d checks were begun, want 2: a check without an answer is the only one", pings)
		}
		if err := h.Ready(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestHealth_EndsHandlerAfterTwoFailuresInARow(t *testing.T) {
	first, second := newFake(), newFake()
	pings := 0
	first.ping = func(context.Context) error {
		switch pings++; pings {
		case 2, 4, 5: // one failure is forgiven
			return errors.New("handler fs says that it is NOT_SERVING")
		}
		return nil
	}
	supervised(t, []*fake{first, second}, func(t *testing.T, h *Handler, _ *fleet) {
		if err := h.Ready(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(24900 * time.Millisecond)
		wantState(t, h, Ready)
		time.Sleep(200 * time.Millisecond)
		wantState(t, h, Backoff)
		if got := h.Status().GetError(); !strings.Contains(got, "failed 2 health checks") || !strings.Contains(got, "NOT_SERVING") {
			t.Errorf("error = %q, want the failed checks", got)
		}
	})
}

// A supervisor that gets no processor time receives no ticks.
func TestHealth_WaitsLongerIfSupervisorIsDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := newFake()
		release := make(chan struct{})
		slow.ping = func(ctx context.Context) error {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-release:
				return nil
			}
		}
		h := New(Options{Name: "fs"})
		ctx, cancel := context.WithCancel(t.Context())
		ticks, ended := make(chan time.Time), make(chan error, 1)
		go func() { ended <- h.watch(ctx, slow, ticks) }()
		for range healthTicks { // one begins the check
			time.Sleep(time.Hour)
			ticks <- time.Now()
		}
		release <- struct{}{}
		synctest.Wait()
		select {
		case err := <-ended:
			t.Fatalf("watch ended the handler: %v", err)
		default:
		}
		for range healthTicks + 1 {
			ticks <- time.Now()
		}
		if err := <-ended; err == nil {
			t.Error("watch ended without an error, want the missing answer")
		}
		cancel()
	})
}

func TestHealth_EndsStoppedProcess(t *testing.T) {
	h, _ := realHandler(t)
	conn, err := h.Conn()
	if err != nil {
		t.Fatal(err)
	}
	inst, ticks := conn.(Instance), make(chan time.Time)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(deadline(t))
	defer cancel()
	testkit.Freeze(t, inst.PID())
	t.Cleanup(func() { _ = syscall.Kill(inst.PID(), syscall.SIGCONT) })
	go func() { ended <- h.watch(ctx, inst, ticks) }()
	for range healthTicks + 1 {
		ticks <- time.Now()
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "did not answer") {
		t.Errorf("watch ended with %v, want that the process did not answer", err)
	}
}
