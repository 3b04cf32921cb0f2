package supervise

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// A handler that ends exitLimit times within exitWindow is given up.
	exitLimit  = 5
	exitWindow = time.Minute

	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second

	healthEvery   = 5 * time.Second
	healthTimeout = 2 * time.Second
	healthMisses  = 2
)

// final is an error after which the handler is not started again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// run is the life of a handler. ctx ends with Stop.
func (h *Handler) run(ctx context.Context) {
	var exits exits
	failures := 0 // in a row, without a run of some length between them
	for first := true; ; first = false {
		if !first {
			h.mu.Lock()
			h.restarts++
			h.mu.Unlock()
		}
		h.set(Starting, h.lastCause())
		ready, ended, err := h.once(ctx)
		if ctx.Err() != nil {
			h.stopped(err)
			return
		}
		var giveUp final
		switch {
		case errors.As(err, &giveUp), first && !ready:
			h.fail(err)
			return
		case ended && exits.add(time.Now()):
			h.fail(fmt.Errorf("it ended %d times within %s, the last time: %w", exitLimit, exitWindow, err))
			return
		}
		if ready && exits.steady() {
			failures = 0
		}
		delay := backoff(failures)
		failures++
		h.log.Warn("handler ended: starting it again", "error", err, "in", delay)
		h.set(Backoff, err)
		select {
		case <-ctx.Done():
			h.stopped(nil)
			return
		case <-time.After(delay):
		}
	}
}

// once starts the handler and stays with it to its end. ready tells whether it got so far; ended, whether its end
// counts: a sidecar that cannot be reached has not ended, nobody started it here.
func (h *Handler) once(ctx context.Context) (ready, ended bool, err error) {
	began := time.Now()
	inst, err := h.launched(ctx, h.pinned())
	if err != nil {
		var swapped *SwappedError
		if errors.As(err, &swapped) {
			err = final{err}
		}
		return false, !h.sidecar, err
	}
	in, err := h.introduce(ctx, inst)
	if err != nil {
		return false, true, errors.Join(err, h.endNow(inst))
	}
	a := h.attach(inst, in)
	h.log.Info("handler is ready", "description", in.description(), "pid", inst.PID(), "took", time.Since(began))
	cause := watch(ctx, inst)
	if ctx.Err() != nil {
		h.detach(a, Stopping, cause)
		return true, true, h.end(inst)
	}
	h.detach(a, Backoff, cause)
	if err := h.endNow(inst); err != nil {
		cause = fmt.Errorf("%w; %w", cause, err)
	}
	return true, true, cause
}

// watch stays until the instance has ended, has missed its health checks, or ctx is over (nil).
func watch(ctx context.Context, inst Instance) error {
	tick := time.NewTicker(healthEvery)
	defer tick.Stop()
	for misses := 0; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-inst.Done():
			return ending(inst)
		case <-tick.C:
		}
		err := ping(ctx, inst)
		switch {
		case err == nil:
			misses = 0
			continue
		case ctx.Err() != nil:
			return nil
		}
		select {
		case <-inst.Done():
			return ending(inst)
		default:
		}
		if misses++; misses == healthMisses {
			return fmt.Errorf("it was ended, since it missed %d health checks: %w", misses, err)
		}
	}
}

func ping(ctx context.Context, inst Instance) error {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	return inst.Ping(ctx)
}

func ending(inst Instance) error {
	if err := inst.Err(); err != nil {
		return err
	}
	return errors.New("it ended")
}

// attach makes an instance the one that callers get, and holds in it all scopes that are held.
func (h *Handler) attach(inst Instance, in introduction) *attached {
	h.mu.Lock()
	a := newAttached(inst, h.log)
	h.current = a
	for scope := range h.scopes {
		a.hold(scope)
	}
	if h.describe == nil {
		h.describe, h.pin = in.describe, inst.Digest()
	}
	h.last = last{description: in.description(), notes: in.notes, mutualTLS: inst.MutualTLS(), pid: inst.PID()}
	h.setLocked(Ready, h.cause)
	status := h.statusLocked()
	h.mu.Unlock()
	h.tell(status)
	return a
}

// detach takes it away again, and says why at once: what follows may take a moment.
func (h *Handler) detach(a *attached, state supervisorv1.HandlerState, cause error) {
	h.mu.Lock()
	h.current = nil
	h.setLocked(state, cause)
	status := h.statusLocked()
	h.mu.Unlock()
	h.tell(status)
	a.release()
}

// end stops an instance with the time that Stop gave.
func (h *Handler) end(inst Instance) error {
	h.mu.Lock()
	ctx := h.stopCtx
	h.mu.Unlock()
	if err := inst.Stop(ctx); err != nil {
		return &notStopped{err}
	}
	return nil
}

// endNow kills what has ended already, or does not deserve better.
func (h *Handler) endNow(inst Instance) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := inst.Stop(ctx); err != nil {
		h.log.Error("handler could not be ended", "error", err)
		return &notStopped{err}
	}
	return nil
}

func (h *Handler) fail(cause error) {
	h.log.Error("handler has failed and is not started again", "error", cause)
	h.set(Failed, cause)
}

// stopped is the end that Stop asked for. What a start that was cut short says of that is of no use.
func (h *Handler) stopped(err error) {
	var left *notStopped
	if !errors.As(err, &left) {
		err = nil
	}
	h.set(Stopped, err)
}

func (h *Handler) lastCause() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cause
}

func (h *Handler) pinned() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pin
}

// exits are the times of the latest ends, the oldest first.
type exits []time.Time

// add enters an end and tells whether there were too many.
func (e *exits) add(now time.Time) bool {
	*e = append(*e, now)
	for len(*e) > 0 && now.Sub((*e)[0]) > exitWindow {
		*e = (*e)[1:]
	}
	return len(*e) >= exitLimit
}

// steady: the latest end was the only one for a while.
func (e *exits) steady() bool { return len(*e) <= 1 }

// backoff is how long to wait after so many failures in a row: doubling, and half as much again at random, so that what
// ended together does not start together.
func backoff(failures int) time.Duration {
	d := maxBackoff
	if failures < 8 { // 200 ms << 8 is more than 30 s
		d = minBackoff << failures
	}
	return min(d+rand.N(d/2), maxBackoff)
}
