package handler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// holds counts who holds which scope, and releases a scope that nobody has held for a while.
type holds struct {
	release func(scope string)
	delay   time.Duration
	log     *slog.Logger

	mu     sync.Mutex
	scopes map[string]*hold
	closed bool
	work   sync.WaitGroup // releases under way
}

type hold struct {
	count     int
	timer     *time.Timer   // nil: held, or being released
	turn      int           // tells an expired timer that is late from the one that counts
	releasing chan struct{} // closed when the release has returned; nil: none is under way
	gone      bool          // it was released, though held: who still holds it holds nothing
}

// hold has the timer that runs count for nothing.
func (s *hold) hold() {
	s.turn++
	if s.timer != nil {
		s.timer.Stop()
		s.timer = nil
	}
}

func newHolds(release func(string), delay time.Duration, log *slog.Logger) *holds {
	if release == nil {
		release = func(string) {}
	}
	return &holds{release: release, delay: delay, log: log, scopes: map[string]*hold{}}
}

// acquire holds scope until the returned function is called. It waits for a release of it that is under way.
func (h *holds) acquire(ctx context.Context, scope string) (drop func(), err error) {
	for {
		h.mu.Lock()
		s := h.scopes[scope]
		if s == nil {
			s = &hold{}
			h.scopes[scope] = s
		}
		if s.releasing == nil {
			s.count++
			s.hold()
			h.mu.Unlock()
			return sync.OnceFunc(func() { h.drop(scope, s) }), nil
		}
		releasing := s.releasing
		h.mu.Unlock()
		select {
		case <-releasing:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (h *holds) drop(scope string, s *hold) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if s.count--; s.count > 0 || h.closed || s.gone {
		return
	}
	turn := s.turn
	s.timer = time.AfterFunc(h.delay, panics.Guard(h.log, "releasing a scope", func() { h.expire(scope, s, turn) }))
}

// expire releases the scope, unless somebody holds it again.
func (h *holds) expire(scope string, s *hold, turn int) {
	h.mu.Lock()
	if h.closed || s.turn != turn {
		h.mu.Unlock()
		return
	}
	s.timer = nil
	s.releasing = make(chan struct{})
	h.work.Go(func() { h.finish(scope, s) })
	h.mu.Unlock()
}

// letGo releases the scope at once, whoever holds it, and returns when that is done, or when ctx ends.
func (h *holds) letGo(ctx context.Context, scope string) error {
	h.mu.Lock()
	s := h.scopes[scope]
	if s == nil || h.closed {
		h.mu.Unlock()
		return nil
	}
	s.gone = true
	if s.releasing == nil {
		s.hold()
		s.releasing = make(chan struct{})
		h.work.Go(func() { h.finish(scope, s) })
	}
	releasing := s.releasing
	h.mu.Unlock()
	select {
	case <-releasing:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// finish does what a release is.
func (h *holds) finish(scope string, s *hold) {
	defer func() {
		h.mu.Lock()
		delete(h.scopes, scope)
		if s.gone && !h.closed { // a call that was on its way may still make something
			after := &hold{}
			after.timer = time.AfterFunc(h.delay, panics.Guard(h.log, "releasing a scope", func() { h.expire(scope, after, 0) }))
			h.scopes[scope] = after
		}
		h.mu.Unlock()
		close(s.releasing)
	}()
	panics.Guard(h.log, "releasing a scope", func() { h.release(scope) })()
}

// keeper holds several scopes for a caller. Safe for concurrent use.
type keeper struct {
	ctx   context.Context
	holds *holds

	mu     sync.Mutex
	scopes map[string]*keptScope // nil: nothing is held any more
}

type keptScope struct{ drop func() } // nil: it waits for the release under way

// hold holds a scope. It does not wait: a release of one scope that takes long must not keep others from being held.
func (k *keeper) hold(scope string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.scopes == nil || k.scopes[scope] != nil {
		return
	}
	s := &keptScope{}
	k.scopes[scope] = s
	go func() { // it ends with ctx
		defer panics.Recover(k.holds.log, "holding a scope")
		drop, err := k.holds.acquire(k.ctx, scope)
		if err != nil {
			return
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.scopes[scope] != s { // it was dropped meanwhile
			drop()
			return
		}
		s.drop = drop
	}()
}

// drop stops holding a scope.
func (k *keeper) drop(scope string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.scopes[scope]; s != nil && s.drop != nil {
		s.drop()
	}
	delete(k.scopes, scope)
}

// dropAll stops holding any.
func (k *keeper) dropAll() {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, s := range k.scopes {
		if s.drop != nil {
			s.drop()
		}
	}
	k.scopes = nil
}

// close stops all timers and waits for the releases under way. What is still held is Handler.Close's to give back.
func (h *holds) close() {
	h.mu.Lock()
	h.closed = true
	for _, s := range h.scopes {
		if s.timer != nil {
			s.timer.Stop()
		}
	}
	h.mu.Unlock()
	h.work.Wait()
}
