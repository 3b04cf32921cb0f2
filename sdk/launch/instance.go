package launch

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// measureTime is how long after its start a program is measured, unless somebody asks for its digest before that: until then
// the processors have a start to finish, and nobody needs the digest before the program is started again.
const measureTime = time.Second

// reapTime is how long a process may take to vanish after KILL. Only one that is stuck in the kernel needs longer.
const reapTime = 2 * time.Second

// Instance is one running handler: a connection, and the process or sidecar behind it. All methods are safe for
// concurrent use.
//
// A connection is never made anew. When it is lost, or the process ends, the instance is done: calls in flight and calls
// made later fail with UNAVAILABLE, and the owner starts another instance.
type Instance struct {
	name    string
	log     *slog.Logger
	conn    *grpc.ClientConn
	socket  net.Conn
	proc    *process // nil: a sidecar
	dir     string   // the child's socket folder
	address string
	program *program // nil: a sidecar
	mtls    bool
	grace   time.Duration

	stopping   atomic.Bool
	unmeasured atomic.Pointer[error] // why the program has no digest
	askDigest  sync.Once
	asked      chan struct{} // closed when somebody asks for the digest
	digest     string        // set before measured is closed
	measured   chan struct{} // closed when the program is closed
	terminate  sync.Once
	watch      context.CancelFunc
	work       sync.WaitGroup // watchers of the connection

	done    chan struct{} // closed after err is set
	err     error
	stopped chan struct{} // done, and everything given back
}

var _ grpc.ClientConnInterface = (*Instance)(nil)

// newInstance makes an instance of a connection. What watches the connection does so until the context ends.
func newInstance(s Spec, socket net.Conn, conn *grpc.ClientConn, address string) (*Instance, context.Context) {
	watching, watch := context.WithCancel(context.Background())
	return &Instance{
		name: s.Name, log: s.Logger, grace: s.StopGrace, conn: conn, socket: socket, address: address,
		watch: watch, done: make(chan struct{}), stopped: make(chan struct{}),
		asked: make(chan struct{}), measured: make(chan struct{}),
	}, watching
}

// Invoke makes a unary call, as grpc.ClientConn does. After Done it fails with UNAVAILABLE.
func (i *Instance) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return i.unavailable(ctx, i.conn.Invoke(ctx, method, args, reply, opts...))
}

// NewStream begins a streaming call, as grpc.ClientConn does. After Done it fails with UNAVAILABLE.
func (i *Instance) NewStream(
	ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption,
) (grpc.ClientStream, error) {
	stream, err := i.conn.NewStream(ctx, desc, method, opts...)
	return stream, i.unavailable(ctx, err)
}

// unavailable corrects what grpc says of a connection that was closed on this side: CANCELED, as though the caller had
// given up.
func (i *Instance) unavailable(ctx context.Context, err error) error {
	if err == nil || status.Code(err) != codes.Canceled || ctx.Err() != nil || !i.stopping.Load() {
		return err
	}
	return status.Errorf(codes.Unavailable, "handler %s is stopped", i.name)
}

// Ping asks the handler's health service whether it serves. It needs a deadline in ctx: a stopped process never answers.
func (i *Instance) Ping(ctx context.Context) error {
	answer, err := grpc_health_v1.NewHealthClient(i).Check(ctx,
		&grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
	if err != nil {
		return fmt.Errorf("ask handler %s for its health: %w", i.name, err)
	}
	if s := answer.GetStatus(); s != grpc_health_v1.HealthCheckResponse_SERVING {
		return fmt.Errorf("handler %s says that it is %s", i.name, s)
	}
	return nil
}

// Done is closed when the process has ended, or the connection is lost.
func (i *Instance) Done() <-chan struct{} { return i.done }

// Err says why the instance is done: "exited with status 3: " and its last line on stderr. It is nil before Done, and
// where Stop ended it.
func (i *Instance) Err() error {
	select {
	case <-i.done:
		return i.err
	default:
		return nil
	}
}

// PID is the child's process id, 0 for a sidecar. After Done it may be another process's.
func (i *Instance) PID() int {
	if i.proc == nil {
		return 0
	}
	return i.proc.pid
}

// Digest is the SHA-256 of the program that was started, in lower-case hexadecimal; empty for a sidecar. It is worked out
// when it is first asked for, and a second after Start at the latest: the call may take some 10 ms. A program that is changed
// before that ends the instance, and its digest is empty; so is that of an instance that was stopped before that.
func (i *Instance) Digest() string {
	if i.program == nil {
		return ""
	}
	i.askDigest.Do(func() { close(i.asked) })
	<-i.measured
	return i.digest
}

// MutualTLS says whether both ends have proved who they are by certificate.
func (i *Instance) MutualTLS() bool { return i.mtls }

// Sidecar says whether the handler was dialled rather than started.
func (i *Instance) Sidecar() bool { return i.proc == nil }

// Address is where the connection leads, for status and logs: "unix:///PATH" or "tcp://HOST:PORT".
func (i *Instance) Address() string { return i.address }

// StderrTail returns the last lines of the child's stderr, the newest last, at most 20.
func (i *Instance) StderrTail() []string {
	if i.proc == nil {
		return nil
	}
	return i.proc.stderr.lines()
}

// Stop ends the instance and waits until it is gone. A child's stdin is closed; if it lives on it gets TERM after
// Spec.StopGrace, and KILL after as long again, or at once when ctx is done: KILL works on a stopped process too. What is
// left of its process group is killed with it. A sidecar's connection is closed, and the sidecar is left alone.
//
// Stop returns soon after ctx is done in every case; an error says that the process could not be killed. It may be called
// again, and by several at once.
func (i *Instance) Stop(ctx context.Context) error {
	i.terminate.Do(func() {
		i.stopping.Store(true)
		go panics.Guard(i.log, "stopping a handler", i.shutdown)()
	})
	select {
	case <-i.stopped:
		return nil
	case <-ctx.Done():
	}
	if i.proc != nil {
		i.proc.signal(syscall.SIGKILL)
	}
	switch {
	case within(reapTime, i.stopped):
		return nil
	case i.proc == nil:
		return fmt.Errorf("stop handler %s: its connection does not close", i.name)
	}
	return fmt.Errorf("stop handler %s: process %d does not end, though it was killed", i.name, i.proc.pid)
}

// shutdown ends the process step by step and gives everything back. It runs once, and for as long as the process does.
func (i *Instance) shutdown() {
	defer close(i.stopped)
	if i.proc != nil {
		i.proc.endInput()
		if !within(i.grace, i.done) {
			i.log.Warn("handler lives on after the end of its stdin: sending TERM", "pid", i.proc.pid)
			i.proc.signal(syscall.SIGTERM)
			i.proc.signal(syscall.SIGCONT) // a stopped process sees TERM only then
			if !within(i.grace, i.done) {
				i.log.Warn("handler ignores TERM: killing it", "pid", i.proc.pid)
				i.proc.signal(syscall.SIGKILL)
			}
		}
	} else {
		_ = i.socket.Close()
	}
	<-i.done
	i.watch()
	_ = i.conn.Close()
	i.work.Wait()
}

// within waits for a channel to be closed, so long at most, and reports whether it is.
func within(most time.Duration, closed <-chan struct{}) bool {
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-closed:
		return true
	case <-late.C:
		return false
	}
}
