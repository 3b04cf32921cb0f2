package supervise

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// holdAgain is the wait before a HoldAll or a Hold that ended is opened again: well within the 10 s after which a handler lets go.
const holdAgain = time.Second

// attached is an instance that callers get, with the scopes that are held in it and the calls that it works on. hold and
// drop are called with the handler's lock held, and not after release.
type attached struct {
	Instance
	h      *Handler
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	calls  calls

	mu      sync.Mutex
	holds   map[string]context.CancelFunc // nil func: over the stream that all share
	changes []*pluginv1.HoldAllRequest    // that the handler was not told yet
	changed chan struct{}                 // has room for one; nil: nothing was held yet
	apart   bool                          // the handler knows no HoldAll
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
		a.work.Go(a.keepAll)
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
	a.work.Go(func() { a.letGo(scope) })
}

// change has the handler told what is held, and what is not any more. mu is held.
func (a *attached) change(c *pluginv1.HoldAllRequest) {
	a.changes = append(a.changes, c)
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// holdApart holds a scope over a stream of its own. mu is held.
func (a *attached) holdApart(scope string) {
	ctx, cancel := context.WithCancel(a.ctx)
	a.holds[scope] = cancel
	a.work.Go(func() { a.keep(ctx, func(ctx context.Context) error { return a.open(ctx, scope) }, "Hold") })
}

// keepAll holds the scopes over one stream. With a handler that cannot, it holds each apart.
func (a *attached) keepAll() {
	if a.keep(a.ctx, a.openAll, "HoldAll") {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.apart, a.changes = true, nil
	for scope := range a.holds {
		a.holdApart(scope)
	}
}

// openAll has a HoldAll open until it breaks off.
func (a *attached) openAll(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pluginv1.NewPluginServiceClient(a.Instance).HoldAll(ctx)
	if err != nil {
		return err
	}
	ended := make(chan error, 1)
	a.work.Go(func() {
		var err error
		for err == nil {
			_, err = stream.Recv() // one answer, then nothing until the end
		}
		ended <- err
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
			if stream.Send(c) != nil { // Recv says why
				return <-ended
			}
		}
		select {
		case <-a.changed:
		case err := <-ended:
			return err
		}
	}
}

// releaseTimeout bounds the wait for a handler to let go of a scope.
const releaseTimeout = 10 * time.Second

// letGo has the handler release a scope at once. One that cannot does it by itself, later.
func (a *attached) letGo(scope string) {
	ctx, cancel := context.WithTimeout(a.ctx, releaseTimeout)
	defer cancel()
	_, err := pluginv1.NewPluginServiceClient(a.Instance).Release(ctx, &pluginv1.ReleaseRequest{Scope: scope})
	if err != nil && ctx.Err() == nil {
		a.h.log.Debug("handler releases a scope later", "error", err)
	}
}

// release ends every hold and waits for that.
func (a *attached) release() {
	a.cancel()
	a.work.Wait()
}

// keep has a stream open until ctx ends. It reports false if the handler does not know the method.
func (a *attached) keep(ctx context.Context, open func(context.Context) error, method string) (known bool) {
	for {
		err := open(ctx)
		if ctx.Err() != nil {
			return true
		}
		if status.Code(err) == codes.Unimplemented {
			a.h.log.Debug("handler does not know a method by which it is told when a session has ended", "method", method, "error", err)
			return false
		}
		select {
		case <-ctx.Done():
			return true
		case <-a.Done():
			return true
		case <-time.After(holdAgain):
		}
	}
}

func (a *attached) open(ctx context.Context, scope string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := pluginv1.NewPluginServiceClient(a.Instance).Hold(ctx, &pluginv1.HoldRequest{Scope: scope})
	for err == nil {
		_, err = stream.Recv() // one answer, then nothing until the end
	}
	return err
}
