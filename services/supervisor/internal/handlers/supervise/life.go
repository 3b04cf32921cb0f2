package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"syscall"
	"time"

	"github.com/acphost/acphost/internal/panics"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	// After exitLimit ends within exitWindow, the handler is not started again.
	exitLimit  = 5
	exitWindow = time.Minute

	minBackoff = 200 * time.Millisecond
	maxBackoff = 30 * time.Second
	// sidecarRetry is the maximum pause between two attempts to connect to a sidecar.
	sidecarRetry = 500 * time.Millisecond
)

// final is an error after which the handler is not started again.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// life runs a handler with one program or address: from Start, or from the swap that installed it, until the next swap,
// failure or Stop. One goroutine runs it.
type life struct {
	ctx    context.Context // ends with Stop, and when the life is replaced
	cancel context.CancelFunc
	begun  *attached     // its first instance; nil: it starts one
	done   chan struct{} // closed when all of it has ended
	forced int           // number of calls that its last instance did not answer; set before done is closed
}

// beginLocked makes a new life the current one, and returns the previous one.
func (h *Handler) beginLocked(begun *attached) (before *life) {
	l := &life{begun: begun, done: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancel(h.ctx)
	before, h.life = h.life, l
	go func() {
		defer close(l.done)
		defer l.cancel()
		defer panics.Recover(h.log, "keeping the handler running", func(err error) {
			h.fail(l, err)
			h.abandon(l, err)
		})
		h.run(l)
	}()
	return before
}

// abandon ends the instance of a life whose goroutine has failed.
func (h *Handler) abandon(l *life, cause error) {
	h.mu.Lock()
	a := h.current
	if h.life != l {
		a = nil
	}
	h.mu.Unlock()
	if a != nil {
		h.detach(l, a, Failed, cause)
		_ = h.endNow(a.Instance)
	}
}

func (h *Handler) isSidecar() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.target.sidecar()
}

// replaced reports whether another life is the current one.
func (h *Handler) replaced(l *life) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.life != l
}

// run runs a life.
func (h *Handler) run(l *life) {
	var ends Ends
	failures := 0 // in a row; a long run resets it
	for first := true; ; first = false {
		ready, ended, err := h.next(l, first)
		if l.ctx.Err() != nil {
			h.stopped(l, err)
			return
		}
		_, giveUp := errors.AsType[final](err)
		switch {
		case giveUp, first && !ready:
			h.fail(l, err)
			return
		case ended && ends.Add(time.Now(), exitWindow) >= exitLimit:
			h.fail(l, fmt.Errorf("it ended %d times within %s, the last time: %w", exitLimit, exitWindow, err))
			return
		}
		if ready && len(ends) <= 1 { // the only end within the window
			failures = 0
		}
		delay := Delay(failures)
		failures++
		level, words := slog.LevelWarn, "handler ended: starting it again"
		if h.isSidecar() { // another program starts it again; connect as soon as it listens
			delay, words = min(delay, sidecarRetry), "sidecar cannot be reached: connecting again until it can"
			if failures > 1 {
				level = slog.LevelDebug
			}
		}
		h.log.Log(l.ctx, level, words, "error", err, "in", delay)
		h.set(l, Backoff, err)
		select {
		case <-l.ctx.Done():
			h.stopped(l, nil)
			return
		case <-time.After(delay):
		}
	}
}

// next runs one instance until it ends. ready reports whether the instance became ready; ended, whether its end counts
// towards exitLimit. It does not count if a sidecar is unreachable, since acphost does not start sidecars, or if the
// system had no room for a process.
func (h *Handler) next(l *life, first bool) (ready, ended bool, err error) {
	if first && l.begun != nil {
		return true, true, h.stay(l, l.begun)
	}
	began := time.Now()
	target, pin, before := h.again(l, first)
	kept := h.kept()
	digest, err := pin.digest(&target)
	var inst Instance
	if err == nil {
		inst, err = target.start(l.ctx, digest)
	}
	if err != nil {
		if _, swapped := errors.AsType[*SwappedError](err); swapped {
			err = final{err}
		}
		return false, !target.sidecar() && !noRoom(err), err
	}
	in, err := h.introduce(l.ctx, inst, &target, kept)
	if err == nil && before != nil {
		if err = h.same(before, in.describe); err != nil {
			err = final{err}
		}
	}
	if err != nil {
		return false, true, errors.Join(err, h.endNow(inst))
	}
	a := h.attach(l, inst, in)
	if a == nil {
		return true, true, h.endNow(inst) // no caller has used it
	}
	h.log.Info("handler is ready", "description", in.description(), "pid", inst.PID(), "took", time.Since(began))
	return true, true, h.stay(l, a)
}

// noRoom reports whether no process could be started because the user or its control group has too many.
func noRoom(err error) bool { return errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.ENOMEM) }

// again records the begin of a start, and returns what to start.
func (h *Handler) again(l *life, first bool) (t target, pin pin, before *pluginv1.DescribeResponse) {
	h.change(func() bool {
		t, pin, before = h.target, h.pin, h.describe
		if h.life != l {
			return false
		}
		if !first && !h.target.sidecar() { // attach counts the connections to a sidecar
			h.restarts++
		}
		h.setLocked(Starting, h.cause)
		return true
	})
	return t, pin, before
}

// stay watches an instance in use until it ends, and ends its remaining processes; it returns why it ended.
func (h *Handler) stay(l *life, a *attached) error {
	tick := time.NewTicker(healthEvery)
	cause := h.watch(l.ctx, a.Instance, tick.C)
	tick.Stop()
	switch {
	case h.replaced(l):
		l.forced = h.drain(a)
		return nil
	case l.ctx.Err() != nil:
		h.detach(l, a, Stopping, cause)
		return h.end(a.Instance)
	}
	if !h.detach(l, a, Backoff, cause) {
		l.forced = h.drain(a) // replaced at this moment
		return nil
	}
	a.Digest() // the next start needs the first digest, which an ended instance cannot compute
	if err := h.endNow(a.Instance); err != nil {
		cause = fmt.Errorf("%w; %w", cause, err)
	}
	return cause
}

func ending(inst Instance) error {
	if err := inst.Err(); err != nil {
		return err
	}
	return errors.New("it ended")
}

// attach puts an instance into use; nil: the life was replaced.
func (h *Handler) attach(l *life, inst Instance, in introduction) *attached {
	a := newAttached(h, inst)
	attached := h.change(func() bool {
		if h.life != l || h.stopCtx != nil {
			return false
		}
		h.attachLocked(a, in)
		switch {
		case h.describe == nil:
			h.describe, h.pin = in.describe, inst.Digest
		case h.target.sidecar():
			h.restarts++
		}
		h.setLocked(Ready, nil) // clears the cause of earlier failures
		return true
	})
	if !attached {
		a.release()
		return nil
	}
	return a
}

// attachLocked makes an instance the current one, and holds all held scopes in it.
func (h *Handler) attachLocked(a *attached, in introduction) {
	h.current = a
	for scope := range h.scopes {
		a.hold(scope)
	}
	h.keep = in.keep
	h.last = last{description: in.description(), notes: in.notes, mutualTLS: a.MutualTLS(), pid: a.PID()}
}

// detach takes an instance out of use, and sets the state at once: ending it may take a moment. False: the life was
// replaced.
func (h *Handler) detach(l *life, a *attached, state supervisorv1.HandlerState, cause error) bool {
	detached := h.changeOf(l, func() {
		h.current = nil
		h.setLocked(state, cause)
	})
	if detached {
		a.release()
	}
	return detached
}

// end stops an instance within the time that Stop allows.
func (h *Handler) end(inst Instance) error {
	h.mu.Lock()
	ctx := h.stopCtx
	h.mu.Unlock()
	if err := inst.Stop(ctx); err != nil {
		return &notStopped{err}
	}
	return nil
}

// endNow kills an instance that has ended or failed.
func (h *Handler) endNow(inst Instance) error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := inst.Stop(ctx); err != nil {
		h.log.Error("handler could not be ended", "error", err)
		return &notStopped{err}
	}
	return nil
}

func (h *Handler) fail(l *life, cause error) {
	if h.set(l, Failed, cause) {
		h.log.Error("handler has failed and is not started again", "error", cause)
	}
}

// stopped sets the state Stopped after Stop. It ignores the error of a start that Stop interrupted.
func (h *Handler) stopped(l *life, err error) {
	if _, left := errors.AsType[*notStopped](err); !left {
		err = nil
	}
	h.set(l, Stopped, err)
}

// Ends holds the times of a process's latest ends, oldest first.
type Ends []time.Time

// Add adds an end and returns how many there were within the given time, including this one. It drops earlier ones.
func (e *Ends) Add(now time.Time, within time.Duration) int {
	*e = append(*e, now)
	for now.Sub((*e)[0]) > within {
		*e = (*e)[1:]
	}
	return len(*e)
}

// Delay returns how long to wait before a restart after a number of failures in a row: 200 ms, doubled with each
// failure, at most 30 s, plus a random amount of up to half as much, so that processes that ended together do not start
// together.
func Delay(failures int) time.Duration {
	d := maxBackoff
	if failures < 8 { // 200 ms << 8 is more than 30 s
		d = minBackoff << failures
	}
	return min(d+rand.N(d/2), maxBackoff) //nolint:gosec // it spreads restarts, and keeps no secret
}
