package supervise

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

// methodWork is a call whose duration a test sets.
const methodWork = "/test.Service/Work"

// fake is a handler without a process or a socket.
type fake struct {
	describe  *pluginv1.DescribeResponse
	describes func(ctx context.Context) error // instead of an answer, if it returns an error
	configure func(*pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error)
	ping      func(ctx context.Context) error
	stop      func(ctx context.Context) error
	work      func(ctx context.Context) error // what methodWork does
	holdErr   error
	allErr    error         // what HoldAll ends with at once, if it is not known; nil: UNIMPLEMENTED
	digest    string        // "abc" unless a test changes it
	measuring chan struct{} // the digest waits for its end; nil: it does not wait

	mu         sync.Mutex
	done       chan struct{}
	err        error
	ended      bool
	configured []*pluginv1.ConfigureRequest
	held       []string           // open holds
	together   bool               // it knows HoldAll
	streams    int                // how often that was opened
	cut        context.CancelFunc // breaks it off
	opened     int
	stops      []bool // for each Stop, whether its context was over
}

func newFake() *fake {
	return &fake{
		describe: &pluginv1.DescribeResponse{Name: "faked", Version: "1", Services: []string{"acphost.fs.v1.FileSystemService"}},
		done:     make(chan struct{}),
		digest:   "abc",
	}
}

// end ends it as a crash would.
func (f *fake) end(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.ended {
		f.ended, f.err = true, err
		close(f.done)
	}
}

func (f *fake) Done() <-chan struct{} { return f.done }
func (f *fake) PID() int              { return 4711 }
func (f *fake) MutualTLS() bool       { return true }

func (f *fake) Digest() string {
	if f.measuring != nil {
		<-f.measuring
	}
	return f.digest
}

func (f *fake) Err() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

func (f *fake) Ping(ctx context.Context) error {
	if f.ping != nil {
		return f.ping(ctx)
	}
	return nil
}

func (f *fake) Stop(ctx context.Context) error {
	f.mu.Lock()
	f.stops = append(f.stops, ctx.Err() != nil)
	f.mu.Unlock()
	f.end(nil)
	if f.stop != nil {
		return f.stop(ctx)
	}
	return nil
}

func (f *fake) stopped() []bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.stops)
}

func (f *fake) scopes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(slices.Values(f.held))
}

func (f *fake) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	switch method {
	case pluginv1.PluginService_Describe_FullMethodName:
		if f.describes != nil {
			if err := f.describes(ctx); err != nil {
				return err
			}
		}
		proto.Merge(reply.(proto.Message), f.describe)
		return nil
	case pluginv1.PluginService_Configure_FullMethodName:
		req := args.(*pluginv1.ConfigureRequest)
		f.mu.Lock()
		f.configured = append(f.configured, proto.CloneOf(req))
		f.mu.Unlock()
		if f.configure == nil {
			return nil
		}
		answer, err := f.configure(req)
		if err == nil {
			proto.Merge(reply.(proto.Message), answer)
		}
		return err
	}
	if method == methodWork && f.work != nil {
		return f.work(ctx)
	}
	return status.Error(codes.Unimplemented, method)
}

func (f *fake) NewStream(ctx context.Context, _ *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	switch {
	case method == pluginv1.PluginService_Hold_FullMethodName:
		return &fakeHold{f: f, ctx: ctx}, nil
	case method == pluginv1.PluginService_HoldAll_FullMethodName && f.together:
		ctx, cut := context.WithCancel(ctx)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.streams++
		f.cut = cut
		return &fakeHoldAll{fakeHold: fakeHold{f: f, ctx: ctx}}, nil
	case method == pluginv1.PluginService_HoldAll_FullMethodName && f.allErr != nil:
		f.mu.Lock()
		defer f.mu.Unlock()
		f.streams++
		return nil, f.allErr
	}
	return nil, status.Error(codes.Unimplemented, method)
}

// fakeHoldAll holds several scopes.
type fakeHoldAll struct{ fakeHold }

func (h *fakeHoldAll) SendMsg(m any) error {
	if h.ctx.Err() != nil {
		return io.EOF
	}
	c := m.(*pluginv1.HoldAllRequest)
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.held = slices.DeleteFunc(h.f.held, func(s string) bool { return s == c.GetScope() })
	if !c.GetDrop() {
		h.f.held = append(h.f.held, c.GetScope())
	}
	return nil
}

func (h *fakeHoldAll) RecvMsg(any) error {
	if !h.open {
		h.open = true
		return nil
	}
	select {
	case <-h.ctx.Done():
	case <-h.f.done:
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.held = nil
	return status.Error(codes.Canceled, "cut")
}

type fakeHold struct {
	f     *fake
	ctx   context.Context
	scope string
	open  bool
}

func (h *fakeHold) Header() (metadata.MD, error) { return nil, nil }
func (h *fakeHold) Trailer() metadata.MD         { return nil }
func (h *fakeHold) CloseSend() error             { return nil }
func (h *fakeHold) Context() context.Context     { return h.ctx }

func (h *fakeHold) SendMsg(m any) error {
	h.scope = m.(*pluginv1.HoldRequest).GetScope()
	return nil
}

func (h *fakeHold) RecvMsg(any) error {
	if !h.open {
		h.f.mu.Lock()
		defer h.f.mu.Unlock()
		h.f.opened++
		if h.f.holdErr != nil {
			return h.f.holdErr
		}
		h.open = true
		h.f.held = append(h.f.held, h.scope)
		return nil
	}
	select {
	case <-h.ctx.Done():
	case <-h.f.done:
	}
	h.f.mu.Lock()
	defer h.f.mu.Unlock()
	h.f.held = slices.DeleteFunc(h.f.held, func(s string) bool { return s == h.scope })
	return status.FromContextError(context.Canceled).Err()
}

// fleet hands out fakes in order, one a start; a nil one is a start that fails.
type fleet struct {
	mu     sync.Mutex
	fakes  []*fake
	starts int
	pins   []string
}

func (f *fleet) start(_ context.Context, pin string) (Instance, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pins = append(f.pins, pin)
	f.starts++
	if f.starts > len(f.fakes) {
		return nil, fmt.Errorf("start %d: %w", f.starts, errNoMore)
	}
	if inst := f.fakes[f.starts-1]; inst != nil {
		return inst, nil
	}
	return nil, errStart
}

func (f *fleet) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.starts
}

var (
	errNoMore = errors.New("the test has no more instances")
	errStart  = errors.New("exited with status 3 before it was ready")
	errCrash  = errors.New("exited with status 4: panic")
)

// instanceOf returns the instance of a connection.
func instanceOf(conn grpc.ClientConnInterface) Instance {
	if a, ok := conn.(*attached); ok {
		return a.Instance
	}
	return nil
}
