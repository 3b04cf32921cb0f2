package supervise

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// holdAgain is the wait before a Hold that ended is opened again: well within the 10 s after which a handler lets go.
const holdAgain = time.Second

// attached is an instance that callers get, with the scopes that are held in it and the calls that it works on. hold and
// drop are called with the handler's lock held, and not after release.
type attached struct {
	Instance
	h      *Handler
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup
	holds  map[string]context.CancelFunc
	calls  calls
}

func newAttached(h *Handler, inst Instance) *attached {
	a := &attached{Instance: inst, h: h, holds: map[string]context.CancelFunc{}}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

func (a *attached) hold(scope string) {
	ctx, cancel := context.WithCancel(a.ctx)
	a.holds[scope] = cancel
	a.work.Go(func() { a.keep(ctx, scope) })
}

func (a *attached) drop(scope string) {
	if cancel, ok := a.holds[scope]; ok {
		cancel()
		delete(a.holds, scope)
		a.work.Go(func() { a.letGo(scope) })
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

// keep has a Hold open until ctx ends.
func (a *attached) keep(ctx context.Context, scope string) {
	for {
		err := a.open(ctx, scope)
		if ctx.Err() != nil {
			return
		}
		if status.Code(err) == codes.Unimplemented {
			a.h.log.Debug("handler does not know Hold: it cannot tell when a session has ended", "error", err)
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-a.Done():
			return
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
