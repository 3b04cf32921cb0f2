package supervise

import (
	"context"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

const (
	// drainTimeout is how long a replaced instance may take to finish its active calls.
	drainTimeout = 10 * time.Second
	// replacedStop bounds the stop of a replaced instance after that: the two grace periods of launch, plus a margin.
	replacedStop = 15 * time.Second
)

// calls holds the active unary calls of an instance.
type calls struct {
	mu      sync.Mutex
	open    map[*openCall]struct{} // guarded by mu, as are the fields below
	awaited int                    // number of open calls with a deadline
	retired bool                   // new calls go to another instance
	idle    chan struct{}          // closed when retired and awaited is 0
	empty   chan struct{}          // closed when retired and no call is open
	cut     bool                   // the remaining calls are cancelled
	forced  int                    // number of calls that the retired instance did not answer
}

// openCall is an active call.
type openCall struct {
	cancel  context.CancelFunc
	awaited bool
}

// Invoke makes a unary call. Each call is answered once: by this instance; by its replacement, if this instance was
// replaced before the call began; or with UNAVAILABLE, if this instance was stopped during the call.
func (a *attached) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	ctx, call := a.calls.begin(ctx)
	if call == nil {
		conn, err := a.h.Conn()
		if err != nil {
			return err
		}
		return conn.Invoke(ctx, method, args, reply, opts...)
	}
	err := a.Instance.Invoke(ctx, method, args, reply, opts...)
	if cut := a.calls.end(call, err); cut && err != nil {
		return status.Errorf(codes.Unavailable, "handler %s was replaced before it had answered", a.h.name)
	}
	return err
}

// NewStream begins a stream. It ends with its instance: a stop does not wait for streams.
func (a *attached) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	if a.calls.isRetired() {
		conn, err := a.h.Conn()
		if err != nil {
			return nil, err
		}
		return conn.NewStream(ctx, desc, method, opts...)
	}
	return a.Instance.NewStream(ctx, desc, method, opts...)
}

// begin adds a call; nil: the instance is retired, and the call is for its replacement. A call without a deadline, such
// as waiting for a command's end, may last forever, and drain does not wait for it.
func (c *calls) begin(ctx context.Context) (context.Context, *openCall) {
	_, awaited := ctx.Deadline()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return ctx, nil
	}
	ctx, cancel := context.WithCancel(ctx)
	call := &openCall{cancel: cancel, awaited: awaited}
	if c.open == nil {
		c.open = map[*openCall]struct{}{}
	}
	c.open[call] = struct{}{}
	if awaited {
		c.awaited++
	}
	return ctx, call
}

// end removes a call, and reports whether it failed because it was cut.
func (c *calls) end(call *openCall, err error) (cut bool) {
	call.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, call)
	if call.awaited {
		c.awaited--
	}
	if err != nil && (c.cut || c.retired && status.Code(err) == codes.Unavailable) { // the instance ended before it answered
		c.forced++
	}
	c.signalLocked()
	return c.cut
}

// retire sends all new calls to another instance.
func (c *calls) retire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.retired {
		return
	}
	c.retired, c.idle, c.empty = true, make(chan struct{}), make(chan struct{})
	c.signalLocked()
}

func (c *calls) isRetired() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.retired
}

func (c *calls) signalLocked() {
	if c.retired && c.awaited == 0 {
		closeOnce(c.idle)
	}
	if c.retired && len(c.open) == 0 {
		closeOnce(c.empty)
	}
}

// closeOnce closes a channel if it is open. The caller holds the lock that guards it.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// cutAll cancels all open calls, and returns how many failed.
func (c *calls) cutAll() (forced int) {
	c.mu.Lock()
	c.cut = true
	for call := range c.open {
		call.cancel()
	}
	c.mu.Unlock()
	<-c.empty // a cancelled call returns at once, whatever the handler does
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forced
}

// drain lets a replaced instance finish its active calls, for at most 10 s and not after Stop, then ends it. It returns
// how many calls failed because of that.
func (h *Handler) drain(a *attached) (forced int) {
	a.calls.retire()
	select {
	case <-a.calls.idle:
	case <-a.Done(): // open calls fail by themselves
	case <-time.After(drainTimeout):
		h.log.Warn("the replaced handler has not answered all calls in time", "time", drainTimeout)
	case <-h.ctx.Done():
	}
	forced = a.calls.cutAll()
	a.release()
	ctx, cancel := context.WithTimeout(context.Background(), replacedStop)
	defer cancel()
	stop := context.AfterFunc(h.ctx, func() {
		h.mu.Lock()
		stopCtx := h.stopCtx
		h.mu.Unlock()
		context.AfterFunc(stopCtx, cancel)
	})
	defer stop()
	if err := a.Stop(ctx); err != nil {
		h.log.Error("the replaced handler could not be ended", "error", err)
	}
	return forced
}
