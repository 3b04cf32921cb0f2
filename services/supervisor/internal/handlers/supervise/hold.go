package supervise

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

const (
	// holdAgain is the wait before an ended HoldAll or Hold is opened again, while the handler still keeps the scopes.
	holdAgain = time.Second
	// releaseDelay is how long after the end of a stream a handler releases its scopes. After that, the wait before the
	// next attempt doubles, up to holdSeldom.
	releaseDelay = 10 * time.Second
	holdSeldom   = 30 * time.Second
)

// attached is an instance in use, with the scopes held in it and its active calls. hold and drop are called with the
// handler's lock held, and not after release.
type attached struct {
	Instance
	h      *Handler
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	calls  calls

	mu      sync.Mutex
	holds   map[string]context.CancelFunc // nil func: held over the shared stream
	changes []*pluginv1.HoldAllRequest    // not sent to the handler yet
	changed chan struct{}                 // buffer of one; nil: no scope was held yet
	apart   bool                          // the handler does not implement HoldAll
	warned  bool                          // a failed Hold was logged
}

func newAttached(h *Handler, inst Instance) *attached {
	a := &attached{Instance: inst, h: h, holds: map[string]context.CancelFunc{}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

func (a *attached) hold(scope string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.apart {
		a.holdApart(scope)
		return
	}
	a.holds[scope] = nil
	if a.changed == nil {
		a.changed = make(chan struct{}, 1)
		a.work.Go(panics.Guard(a.h.log, "holding sessions at the handler", a.keepAll))
	}
	a.change(&pluginv1.HoldAllRequest{Scope: scope})
}

func (a *attached) drop(scope string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	cancel, ok := a.holds[scope]
	if !ok {
		return
	}
	delete(a.holds, scope)
	if cancel != nil {
		cancel()
	} else {
		a.change(&pluginv1.HoldAllRequest{Scope: scope, Drop: true})
	}
	a.work.Go(panics.Guard(a.h.log, "releasing a session at the handler", func() { a.releaseNow(scope) }))
}

// change queues a change of the held scopes for the handler. mu is held.
func (a *attached) change(c *pluginv1.HoldAllRequest) {
	a.changes = append(a.changes, c)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// holdApart holds a scope over its own stream. mu is held.
func (a *attached) holdApart(scope string) {
	ctx, cancel := context.WithCancel(a.ctx)
	a.holds[scope] = cancel
	a.work.Go(func() {
		defer panics.Recover(a.h.log, "holding a session at the handler")
		a.keep(ctx, func(ctx context.Context) (bool, error) { return a.open(ctx, scope) }, unknownHold)
	})
}

// keepAll holds the scopes over one stream. If the handler does not implement HoldAll, each scope gets its own stream.
func (a *attached) keepAll() {
	if a.keep(a.ctx, a.openAll, unknownHoldAll) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apart, a.changes = true, nil
	for scope := range a.holds {
		a.holdApart(scope)
	}
}

// openAll runs one HoldAll until it ends.
func (a *attached) openAll(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pluginv1.NewPluginServiceClient(a.Instance).HoldAll(ctx)
	if err != nil {
		return false, err
	}
	ended := make(chan end, 1)
	a.work.Go(func() {
		defer panics.Recover(a.h.log, "holding sessions at the handler", func(err error) { ended <- end{err: err} })
		ended <- untilEnd(stream.Recv)
	})
	a.mu.Lock()
	a.changes = nil
	for scope := range a.holds {
		a.changes = append(a.changes, &pluginv1.HoldAllRequest{Scope: scope})
	}
	a.mu.Unlock()
	for {
		a.mu.Lock()
		changes := a.changes
		a.changes = nil
		a.mu.Unlock()
		for _, c := range changes {
			if stream.Send(c) != nil { // Recv returns the reason
				e := <-ended
				return e.answered, e.err
			}
		}
		select {
		case <-a.changed:
		case e := <-ended:
			return e.answered, e.err
		}
	}
}

// end is how a stream ended, and whether the handler had answered.
type end struct {
	answered bool
	err      error
}

// untilEnd reads a stream of at most one answer until it ends.
func untilEnd[T any](recv func() (T, error)) (e end) {
	for {
		if _, e.err = recv(); e.err != nil {
			return e
		}
		e.answered = true
	}
}

// releaseTimeout bounds the wait until a handler has released a scope.
const releaseTimeout = 10 * time.Second

// releaseNow asks the handler to release a scope at once. A handler that does not implement that releases it later by
// itself.
func (a *attached) releaseNow(scope string) {
	ctx, cancel := context.WithTimeout(a.ctx, releaseTimeout)
	defer cancel()
	_, err := pluginv1.NewPluginServiceClient(a.Instance).Release(ctx, &pluginv1.ReleaseRequest{Scope: scope})
	if err != nil && ctx.Err() == nil {
		a.h.log.Debug("handler releases a scope later", "error", err)
	}
}

// release ends all holds and waits until they have ended.
func (a *attached) release() {
	a.cancel()
	a.work.Wait()
}

// unknownHold reports whether the error of a handler that never answered means that it does not implement Hold.
func unknownHold(err error) bool { return status.Code(err) == codes.Unimplemented }

// unknownHoldAll is unknownHold for HoldAll. Some gRPC servers answer an unknown method with UNKNOWN or INTERNAL, and
// every handler implements Hold. So all errors count, except those about an unreachable or busy handler.
func unknownHoldAll(err error) bool {
	switch status.Code(err) {
	case codes.Unavailable, codes.Canceled, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted:
		return false
	}
	return true
}

// keep keeps a stream open until ctx ends. It returns false if the handler does not implement the method.
func (a *attached) keep(ctx context.Context, open func(context.Context) (answered bool, err error), unknown func(error) bool) (known bool) {
	wait, last := holdAgain, time.Now()
	for {
		answered, err := open(ctx)
		if ctx.Err() != nil {
			return true
		}
		switch {
		case answered:
			wait, last = holdAgain, time.Now()
		case unknown(err):
			a.h.log.Debug("handler does not implement the method that releases a session at once", "error", err)
			return false
		default:
			if time.Since(last) >= releaseDelay {
				a.warn(err)
				wait = min(2*wait, holdSeldom)
			}
		}
		select {
		case <-ctx.Done():
			return true
		case <-a.Done():
			return true
		case <-time.After(wait):
		}
	}
}

// warn logs once that sessions are not held.
func (a *attached) warn(err error) {
	a.mu.Lock()
	warned := a.warned
	a.warned = true
	a.mu.Unlock()
	if !warned {
		a.h.log.Warn("handler does not answer Hold: it may keep what sessions use after their end, or give it up before; acphost asks again", "error", err)
	}
}

func (a *attached) open(ctx context.Context, scope string) (answered bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pluginv1.NewPluginServiceClient(a.Instance).Hold(ctx, &pluginv1.HoldRequest{Scope: scope})
	if err != nil {
		return false, err
	}
	e := untilEnd(stream.Recv)
	return e.answered, e.err
}
