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
	// drainTimeout is how long a replaced instance has for the calls that it works on.
	drainTimeout = 10 * time.Second
	// replacedStop bounds the end of a replaced instance after that: both graces of launch, and some.
	replacedStop = 15 * time.Second
)

// calls are the unary calls that an instance works on.
type calls struct {
	mu      sync.Mutex
	open    map[*openCall]struct{} // guarded by mu, as is all that follows
	awaited int                    // of open, those that have a deadline
	retired bool                   // another instance takes the calls that begin now
	idle    chan struct{}          // closed when retired and awaited is 0
	empty   chan struct{}          // closed when retired and none is open
	cut     bool                   // the time for the rest is over
	forced  int                    // calls that the retired instance did not answer
}

// openCall is a call that was not answered yet.
type openCall struct {
	cancel  context.CancelFunc
	awaited bool
}

// Invoke makes a unary call. It is answered once in every case: by this instance; by the one that took its place, if it
// had done so before the call began; or with UNAVAILABLE, if this one was ended over it.
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

// NewStream begins a stream. It ends with its instance, which does not wait for it.
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

// begin enters a call; nil: it is for the instance that took this one's place. A call without a deadline may take for
// ever, as waiting for a command's end does, and is not waited for.
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

// end takes a call away, and reports whether its time was cut.
func (c *calls) end(call *openCall, err error) (cut bool) {
	call.cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, call)
	if call.awaited {
		c.awaited--
	}
	if err != nil && (c.cut || c.retired && status.Code(err) == codes.Unavailable) { // it ended before it had answered
		c.forced++
	}
	c.signalLocked()
	return c.cut
}

// retire sends every call that begins from now on to another instance.
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

// closeOnce closes a channel under its owner's lock.
func closeOnce(c chan struct{}) {
	select {
	case <-c:
	default:
		close(c)
	}
}

// cutAll has every call that is open fail, and says how many did.
func (c *calls) cutAll() (forced int) {
	c.mu.Lock()
	c.cut = true
	for call := range c.open {
		call.cancel()
	}
	c.mu.Unlock()
	<-c.empty // a cancelled call returns at once, whatever its handler does
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.forced
}

// drain lets a replaced instance answer what it works on, for 10 s at most and not once Stop was called, and ends it. It
// returns how many calls were answered with an error over that.
func (h *Handler) drain(a *attached) (forced int) {
	a.calls.retire()
	select {
	case <-a.calls.idle:
	case <-a.Done(): // what is open fails by itself
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
