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

// Swap describes a handler's replacement.
type Swap struct {
	// Spec describes how to start it or connect to it. Its SHA256 is the digest that the program must have; empty: any.
	// The digest is pinned from then on.
	Spec launch.Spec
	// Configure is sent after each start; a sidecar gets it with validate_only. Nil: the handler's present
	// configuration.
	Configure *pluginv1.ConfigureRequest
	// Check may reject the new instance, after it was described and configured and before callers use it. Nil: no
	// check.
	Check func(ctx context.Context, conn grpc.ClientConnInterface, d *pluginv1.DescribeResponse) error
	// Start replaces launch.Start, as in Options.
	Start func(ctx context.Context, pin string) (Instance, error)
}

// Swap replaces the handler by another program or sidecar while callers continue. It first starts, describes,
// configures and checks the new instance. If that fails, or ctx ends before, the old instance stays in use, the new one
// is removed, and the error states why. Then new calls go to the new instance, it holds the held scopes, and the old
// instance has 10 s to finish its active calls. Swap does not wait for streams and calls without a deadline.
//
// Swap returns when the old instance has ended, even if ctx ends meanwhile. forced is the number of calls that the old
// instance did not answer; each has failed with UNAVAILABLE. From then on, restarts start the new program, whose digest
// is pinned, and earlier ends do not count.
//
// Swap works in every state except STOPPING and STOPPED: it revives a failed handler, and replaces a start in progress.
// Swap, Restart and Configure wait for one another; Stop aborts them.
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

// Restart is Swap with the handler's present program or sidecar: a new process of the same file, or a new connection to
// the same address, which must serve the same methods and gets the kept data. check may reject it as in Swap; nil: no
// check. If the program's file was replaced, the error is a *SwappedError.
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

// Configure sends the settings again, so that the handler reads the files that they name and uses them from then on; a
// sidecar gets them with validate_only. Status then has the handler's answer. The error is the handler's own, or an
// *Unavailable.
func (h *Handler) Configure(ctx context.Context) error { return h.configureAgain(ctx, false) }

// Reload is Configure on a person's order: a sidecar, which keeps its own settings, reads these and the files that they
// name again.
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
	h.markConfigure()
	answer, err := h.configure(ctx, a.Instance, &t, nil, reload)
	h.markConfigure()
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

// Protect adds absolute paths that no agent may access. The handler gets them with its next configuration: at its next
// start, by a swap, or by Configure. Protect does not wait for the handler. A sidecar has its own paths.
func (h *Handler) Protect(paths []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, p := range paths {
		if !slices.Contains(h.guarded, p) {
			h.guarded = append(h.guarded, p)
		}
	}
}

// successor is a handler's replacement.
type successor struct {
	target
	pin   pin
	kept  []byte // as in introduce
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

// succeed introduces an instance and puts it into use. It returns the life that this replaced.
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
	inst.Digest() // fails if the digest cannot be computed
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
		h.since = time.Now() // another process or connection serves, even if the state is the same
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

// acquire waits for the semaphore of Swap, Restart and Configure. The context that it returns also ends with Stop.
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

// release releases the semaphore.
func (h *Handler) release() { <-h.verbs }
