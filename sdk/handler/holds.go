package handler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
)

// holds counts the holders of each scope, and releases a scope that has had no holder for a while.
type holds struct {
	release func(scope string)
	delay   time.Duration
	log     *slog.Logger

	mu     sync.Mutex
	scopes map[string]*hold
	closed bool
	work   sync.WaitGroup // active releases
}

type hold struct {
	count      int
	timer      *time.Timer   // nil: the scope is held, or being released
	generation int           // distinguishes the current timer from earlier, expired timers
	releasing  chan struct{} // closed when the release has returned; nil: no release is active
	released   bool          // it was released although held: its holders hold nothing
}

// hold invalidates the running timer.
func (s *hold) hold() {
	s.generation++
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

// acquire holds scope until the returned function is called. It waits for an active release of the scope.
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
	if s.count--; s.count > 0 || h.closed || s.released {
		return
	}
	generation := s.generation
	s.timer = time.AfterFunc(h.delay, panics.Guard(h.log, "releasing a scope", func() { h.expire(scope, s, generation) }))
}

// expire releases the scope, unless it is held again.
func (h *holds) expire(scope string, s *hold, generation int) {
	h.mu.Lock()
	if h.closed || s.generation != generation {
		h.mu.Unlock()
		return
	}
	s.timer = nil
	s.releasing = make(chan struct{})
	h.work.Go(func() { h.finish(scope, s) })
	h.mu.Unlock()
}

// releaseNow releases the scope at once, regardless of its holders. It returns when the release has returned, or when
// ctx ends.
func (h *holds) releaseNow(ctx context.Context, scope string) error {
	h.mu.Lock()
	s := h.scopes[scope]
	if s == nil || h.closed {
		h.mu.Unlock()
		return nil
	}
	s.released = true
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

// finish releases a scope and removes its entry.
func (h *holds) finish(scope string, s *hold) {
	defer func() {
		h.mu.Lock()
		delete(h.scopes, scope)
		if s.released && !h.closed { // a call that was in flight may still create resources
			after := &hold{}
			after.timer = time.AfterFunc(h.delay, panics.Guard(h.log, "releasing a scope", func() { h.expire(scope, after, 0) }))
			h.scopes[scope] = after
		}
		h.mu.Unlock()
		close(s.releasing)
	}()
	panics.Guard(h.log, "releasing a scope", func() { h.release(scope) })()
}

// keeper holds several scopes for a caller. It is safe for concurrent use.
type keeper struct {
	ctx   context.Context
	holds *holds

	mu     sync.Mutex
	scopes map[string]*keptScope // nil: closed
}

type keptScope struct{ drop func() } // nil: waits for an active release

// hold holds a scope. It does not block: a slow release of one scope must not delay the holding of others.
func (k *keeper) hold(scope string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.scopes == nil || k.scopes[scope] != nil {
		return
	}
	s := &keptScope{}
	k.scopes[scope] = s
	go func() { // ends with ctx
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

// drop releases the hold of a scope.
func (k *keeper) drop(scope string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if s := k.scopes[scope]; s != nil && s.drop != nil {
		s.drop()
	}
	delete(k.scopes, scope)
}

// dropAll releases all holds.
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

// close stops all timers and waits for active releases. Handler.Close releases the scopes that are still held.
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
