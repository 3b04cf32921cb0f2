package supervise

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// Swap says what takes a handler's place.
type Swap struct {
	// Spec starts or dials it. Its SHA256 is what the program must have; empty: any. From then on it is pinned.
	Spec launch.Spec
	// Configure is sent after each start, to a sidecar with validate_only. Nil: what the handler had before.
	Configure *pluginv1.ConfigureRequest
	// Check may refuse it, after it was described and configured and before anybody else calls it. Nil: nobody does.
	Check func(ctx context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error
	// Start replaces launch.Start, as in Options.
	Start func(ctx context.Context, pin string) (Instance, error)
}

// Swap puts another program or sidecar in the handler's place while callers go on. The new instance is started,
// described, configured and checked first; if any of that fails, or ctx ends before it is done, the old one stays as it
// is, nothing of the new one is left, and the error says why. Then calls go to the new one, what is held is held in it,
// and the old one has 10 s for the calls that it works on. Calls without a deadline, and streams, are not waited for.
//
// Swap returns when nothing of the old instance is left, also if ctx ends meanwhile: forced is how many calls it did not
// answer; each has failed with UNAVAILABLE. From then on restarts are of the new program, whose digest is pinned, and
// earlier ends do not count.
//
// It works in every state but STOPPING and STOPPED: it revives a handler that has failed, and takes the place of a start
// that is under way. Swap, Restart and Configure wait for one another; Stop ends them.
func (h *Handler) Swap(ctx context.Context, s Swap) (forced int, err error) {
	forced, err = h.replace(ctx, func(now target, _ pin, _ *pluginv1.DescribeResponse) successor {
		if s.Configure == nil {
			s.Configure = now.configure
		}
		return successor{target: newTarget(s.Spec, s.Configure, s.Start), check: s.Check}
	})
	if err != nil {
		return 0, fmt.Errorf("swap handler %s: %w", h.name, err)
	}
	return forced, nil
}

// Restart is Swap with the program or sidecar that the handler has: a new process of the same file, or a new connection
// to the same address, which must serve what the old one did and believes what that believed. check may refuse it as in Swap; nil: nobody does. A
// program that was replaced on disk is a *SwappedError.
func (h *Handler) Restart(ctx context.Context, check func(context.Context) error) error {
	_, err := h.replace(ctx, func(now target, pin pin, before *pluginv1.DescribeResponse) successor {
		return successor{target: now, pin: pin, kept: h.keep, check: func(ctx context.Context, _ grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error {
			if before != nil {
				if err := h.same(before, d); err != nil {
					return err
				}
			}
			if check != nil {
				return check(ctx)
			}
			return nil
		}}
	})
	if err != nil {
		return fmt.Errorf("restart handler %s: %w", h.name, err)
	}
	return nil
}

// Configure sends the settings again, so that the handler reads the files that they name again and believes them; to a
// sidecar with validate_only. What it says of them is in Status from then on. An error is the handler's own, in its words, or an
// *Unavailable.
func (h *Handler) Configure(ctx context.Context) error { return h.configureAgain(ctx, false) }

// Reload is Configure on a person's order: a sidecar, which keeps its own settings, reads these and what they name again.
func (h *Handler) Reload(ctx context.Context) error { return h.configureAgain(ctx, true) }

func (h *Handler) configureAgain(ctx context.Context, reload bool) error {
	ctx, release, err := h.acquire(ctx)
	if err != nil {
		return err
	}
	defer release()
	if _, err := h.Conn(); err != nil {
		return err
	}
	h.mu.Lock()
	a, t := h.current, h.target
	h.mu.Unlock()
	if a == nil {
		return &Unavailable{Name: h.name, State: Backoff}
	}
	h.tell()
	answer, err := h.configure(ctx, a.Instance, &t, nil, reload)
	h.tell()
	if err != nil {
		return err
	}
	h.change(func() bool {
		if h.current != a {
			return false
		}
		h.last.notes = answer.GetNotes()
		h.keep = keepable(&t, answer.GetKeep())
		return true
	})
	return nil
}

// Protect has the handler be told of further absolute paths that no agent may touch, whenever it is configured from now on:
// at its next start, by a swap, by Configure. It does not wait for the handler. A sidecar has paths of its own.
func (h *Handler) Protect(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range paths {
		if !slices.Contains(h.guarded, p) {
			h.guarded = append(h.guarded, p)
		}
	}
}

// successor is what is to take a handler's place.
type successor struct {
	target
	pin   pin
	kept  []byte // as of introduce
	check func(ctx context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error
}

func (h *Handler) replace(
	ctx context.Context, by func(now target, pin pin, before *pluginv1.DescribeResponse) successor,
) (forced int, err error) {
	ctx, release, err := h.acquire(ctx)
	if err != nil {
		return 0, err
	}
	defer release()
	h.mu.Lock()
	s := by(h.target, h.pin, h.describe)
	h.mu.Unlock()

	digest, err := s.pin.digest(&s.target)
	if err != nil {
		return 0, err
	}
	inst, err := s.start(ctx, digest)
	if err != nil {
		return 0, err
	}
	before, err := h.succeed(ctx, &s, inst)
	if err != nil {
		if left := h.endNow(inst); left != nil {
			err = fmt.Errorf("%w; and it could not be ended: %w", err, left)
		}
		return 0, err
	}
	before.cancel()
	<-before.done
	return before.forced, nil
}

// succeed introduces an instance and makes it the handler's. It returns the life that has ended with that.
func (h *Handler) succeed(ctx context.Context, s *successor, inst Instance) (before *life, err error) {
	in, err := h.introduce(ctx, inst, &s.target, s.kept)
	if err != nil {
		return nil, err
	}
	if s.check != nil {
		if err := s.check(ctx, inst, in.describe); err != nil {
			return nil, err
		}
	}
	inst.Digest() // one that cannot be measured ends
	if isOver(inst) {
		return nil, ending(inst)
	}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	a := newAttached(h, inst)
	var old *attached
	taken := h.change(func() bool {
		if h.stopCtx != nil {
			return false
		}
		old = h.current
		h.target, h.describe, h.pin = s.target, in.describe, inst.Digest
		h.attachLocked(a, in)
		h.setLocked(Ready, nil)
		h.since = time.Now() // another process or connection serves, also if the state is the same
		before = h.beginLocked(a)
		return true
	})
	if !taken {
		a.release()
		return nil, errStopped
	}
	if old != nil {
		old.calls.retire()
	}
	h.log.Info("handler is replaced", "description", in.description(), "pid", inst.PID())
	return before, nil
}

var (
	errStopped    = errors.New("it is being stopped")
	errNotStarted = errors.New("it was not started")
)

// acquire waits for its turn. The context that it returns ends with Stop, too.
func (h *Handler) acquire(ctx context.Context) (_ context.Context, release func(), err error) {
	h.mu.Lock()
	life, stopping := h.ctx, h.stopCtx != nil
	h.mu.Unlock()
	switch {
	case stopping:
		return nil, nil, errStopped
	case life == nil:
		return nil, nil, errNotStarted
	}
	select {
	case h.verbs <- struct{}{}:
	case <-ctx.Done():
		return nil, nil, fmt.Errorf("another swap or restart of it is under way: %w", context.Cause(ctx))
	case <-life.Done():
		return nil, nil, errStopped
	}
	ctx, cancel := context.WithCancelCause(ctx)
	unlink := context.AfterFunc(life, func() { cancel(errStopped) })
	return ctx, func() {
		unlink()
		cancel(nil)
		h.release()
	}, nil
}

// release gives the turn to the next.
func (h *Handler) release() { <-h.verbs }
