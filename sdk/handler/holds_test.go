package handler

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

const scope = "0123456789abcdef0123456789abcdef"

// released collects what was released.
type released struct {
	mu     sync.Mutex
	scopes []string
}

func (r *released) add(scope string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.scopes = append(r.scopes, scope)
}

func (r *released) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.scopes)
}

func newTestHolds(r *released) *holds {
	return newHolds(r.add, releaseDelay, slog.New(slog.DiscardHandler))
}

func mustHold(t *testing.T, h *holds) (drop func()) {
	t.Helper()
	drop, err := h.acquire(t.Context(), scope)
	if err != nil {
		t.Fatal(err)
	}
	return drop
}

func TestHold_ReleasesScopeTenSecondsAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got released
		h := newTestHolds(&got)
		defer h.close()
		one, two := mustHold(t, h), mustHold(t, h)
		one()
		one() // again: no effect
		time.Sleep(time.Minute)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Fatalf("released %v while it was held", got.all())
		}
		two()
		time.Sleep(releaseDelay - time.Millisecond)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Fatalf("released %v too early", got.all())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !slices.Equal(got.all(), []string{scope}) {
			t.Errorf("released %v, want the scope once", got.all())
		}
		if len(h.scopes) != 0 {
			t.Errorf("%d scopes are remembered", len(h.scopes))
		}
	})
}

func TestHold_NewHoldKeepsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got released
		h := newTestHolds(&got)
		defer h.close()
		for range 5 {
			drop := mustHold(t, h)
			drop()
			time.Sleep(releaseDelay - time.Second)
		}
		drop := mustHold(t, h)
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Errorf("released %v", got.all())
		}
		drop()
	})
}

func TestHold_WaitsForReleaseOfScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		h := newHolds(func(string) { <-finish }, releaseDelay, slog.New(slog.DiscardHandler))
		mustHold(t, h)()
		time.Sleep(releaseDelay)
		synctest.Wait()

		impatient, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := h.acquire(impatient, scope); err == nil {
			t.Error("held while it was being released")
		}
		held := make(chan func())
		go func() { held <- mustHold(t, h) }()
		synctest.Wait()
		select {
		case <-held:
			t.Fatal("held while it was being released")
		default:
		}
		close(finish)
		(<-held)()
		h.close()
	})
}

func TestRelease_PanicIsRecovered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHolds(func(string) { panic("on purpose") }, releaseDelay, slog.New(slog.DiscardHandler))
		mustHold(t, h)()
		time.Sleep(releaseDelay)
		synctest.Wait()
		mustHold(t, h)()
		h.close()
	})
}

func TestClose_WaitsForReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got released
		h := newTestHolds(&got)
		mustHold(t, h)()
		h.close()
		time.Sleep(time.Hour)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Errorf("released %v after close", got.all())
		}
	})
}

func TestRelease_SessionEndReleasesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &released{}
		h := newTestHolds(r)
		drop := mustHold(t, h)
		if err := h.releaseNow(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		if got := r.all(); len(got) != 1 {
			t.Fatalf("released %q, want it once, though it is held", got)
		}
		again := mustHold(t, h) // the same scope, by somebody else
		drop()
		time.Sleep(time.Hour)
		if got := r.all(); len(got) != 1 {
			t.Errorf("released %q: who held it before has released it a second time", got)
		}
		again()
		time.Sleep(time.Hour)
		if got := r.all(); len(got) != 2 {
			t.Errorf("released %q, want it again after the last hold", got)
		}
		if err := h.releaseNow(t.Context(), scope); err != nil {
			t.Error("nothing is held, and nothing is wrong:", err)
		}
		h.close()
	})
}

func TestRelease_CoversLaterCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &released{}
		h := newTestHolds(r)
		defer mustHold(t, h)()
		if err := h.releaseNow(t.Context(), scope); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := r.all(); len(got) != 2 {
			t.Errorf("released %q, want it at once and once more later", got)
		}
		h.close()
	})
}

func TestKeeper_HoldsScopesUntilDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got released
		h := newTestHolds(&got)
		defer h.close()
		ctx, cancel := context.WithCancel(t.Context())
		k := keeper{ctx: ctx, holds: h, scopes: map[string]*keptScope{}}
		for _, s := range []string{"a", "b", "c", "b"} { // twice is the same as once
			k.hold(s)
		}
		wait := func(want ...string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if all := got.all(); !slices.Equal(slices.Sorted(slices.Values(all)), want) {
				t.Fatalf("released %q, want %q", all, want)
			}
		}
		wait()
		k.drop("b")
		k.drop("not held")
		wait("b")
		k.hold("b")
		k.drop("b") // which may be before it is held
		wait("b", "b")
		cancel()
		k.dropAll()
		k.hold("late") // the stream is over
		wait("a", "b", "b", "c")
	})
}

func TestHold_ReleaseDoesNotBlockOtherScopes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		h := newHolds(func(s string) {
			if s == "slow" {
				<-finish
			}
		}, releaseDelay, slog.New(slog.DiscardHandler))
		defer h.close()
		ctx, cancel := context.WithCancel(t.Context())
		k := keeper{ctx: ctx, holds: h, scopes: map[string]*keptScope{}}
		k.hold("slow")
		synctest.Wait()
		k.drop("slow")
		time.Sleep(releaseDelay)
		synctest.Wait()
		k.hold("slow") // has to wait
		k.hold("other")
		synctest.Wait()
		h.mu.Lock()
		slow, other := h.scopes["slow"].count, h.scopes["other"].count
		h.mu.Unlock()
		if slow != 0 || other != 1 {
			t.Errorf("slow is held %d times, and other %d times", slow, other)
		}
		close(finish)
		synctest.Wait()
		if h.scopes["slow"].count != 1 {
			t.Error("a waiting scope is not held")
		}
		cancel()
		k.dropAll()
		synctest.Wait()
	})
}

// holding is a stream of scopes to hold.
type holding struct {
	grpc.BidiStreamingServer[pluginv1.HoldAllRequest, pluginv1.HoldAllResponse]
	ctx    context.Context
	scopes chan string
}

func (h holding) Context() context.Context             { return h.ctx }
func (h holding) Send(*pluginv1.HoldAllResponse) error { return nil }

func (h holding) Recv() (*pluginv1.HoldAllRequest, error) {
	select {
	case scope := <-h.scopes:
		return &pluginv1.HoldAllRequest{Scope: scope}, nil
	case <-h.ctx.Done():
		return nil, h.ctx.Err()
	}
}

func TestHoldAll_ReleasesTenSecondsAfterStreamEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var got released
		h := newTestHolds(&got)
		defer h.close()
		ctx, cancel := context.WithCancel(t.Context())
		scopes := make(chan string)
		ended := make(chan error, 1)
		go func() { ended <- (&pluginService{holds: h}).HoldAll(holding{ctx: ctx, scopes: scopes}) }()
		scopes <- scope
		time.Sleep(time.Minute)
		synctest.Wait()
		cancel()
		if err := <-ended; status.Code(err) != codes.Canceled {
			t.Errorf("error = %v", err)
		}
		time.Sleep(releaseDelay - time.Millisecond)
		synctest.Wait()
		if len(got.all()) != 0 {
			t.Errorf("released %q at once, though the stream may be opened again", got.all())
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		if !slices.Equal(got.all(), []string{scope}) {
			t.Errorf("released %q", got.all())
		}
	})
}
