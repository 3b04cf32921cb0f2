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

// digestDelay is the delay after its start until a program is hashed, unless Digest is called earlier: until then the
// processors are busy with starts, and the digest is only needed when the program is started again.
const digestDelay = time.Second

// reapTime limits the wait for a process to exit after KILL. Only a process that is blocked in the kernel needs longer.
const reapTime = 2 * time.Second

// Instance is one running handler: a connection, and its process or sidecar. All methods are safe for concurrent use.
//
// An instance never reconnects. When the connection is lost, or the process ends, the instance is done: active calls
// and later calls fail with UNAVAILABLE, and the owner starts another instance.
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

	stopping        atomic.Bool
	digestErr       atomic.Pointer[error] // why the program has no digest
	requestDigest   sync.Once
	digestRequested chan struct{} // closed when Digest was called
	digest          string        // set before digestDone is closed
	digestDone      chan struct{} // closed when the program is closed
	terminate       sync.Once
	watch           context.CancelFunc
	work            sync.WaitGroup // watchers of the connection

	done    chan struct{} // closed after err is set
	err     error
	stopped chan struct{} // done, and all resources released
}

var _ grpc.ClientConnInterface = (*Instance)(nil)

// newInstance returns an instance for a connection. The watchers of the connection run until the context ends.
func newInstance(s Spec, socket net.Conn, conn *grpc.ClientConn, address string) (*Instance, context.Context) {
	watching, watch := context.WithCancel(context.Background())
	return &Instance{
		name: s.Name, log: s.Logger, grace: s.StopGrace, conn: conn, socket: socket, address: address,
		watch: watch, done: make(chan struct{}), stopped: make(chan struct{}),
		digestRequested: make(chan struct{}), digestDone: make(chan struct{}),
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

// unavailable corrects gRPC's error for a connection that was closed on this side: CANCELED, as if the caller had
// cancelled.
func (i *Instance) unavailable(ctx context.Context, err error) error {
	if err == nil || status.Code(err) != codes.Canceled || ctx.Err() != nil || !i.stopping.Load() {
		return err
	}
	return status.Errorf(codes.Unavailable, "handler %s is stopped", i.name)
}

// Ping calls the handler's health service. ctx must have a deadline: a stopped process never answers.
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

// Done returns a channel that is closed when the process has ended, or the connection is lost.
func (i *Instance) Done() <-chan struct{} { return i.done }

// Err returns why the instance is done: "exited with status 3: " and its last line on stderr. It is nil before Done,
// and if Stop ended the instance.
func (i *Instance) Err() error {
	select {
	case <-i.done:
		return i.err
	default:
		return nil
	}
}

// PID returns the child's process id, 0 for a sidecar. After Done another process may have that id.
func (i *Instance) PID() int {
	if i.proc == nil {
		return 0
	}
	return i.proc.pid
}

// Digest returns the SHA-256 of the program that was started, in lower-case hexadecimal; empty for a sidecar. It is
// computed at the first call, or one second after Start; the call may take about 10 ms. If the program's file is
// changed before, the instance ends and the digest is empty. It is also empty if the instance was stopped before.
func (i *Instance) Digest() string {
	if i.program == nil {
		return ""
	}
	i.requestDigest.Do(func() { close(i.digestRequested) })
	<-i.digestDone
	return i.digest
}

// MutualTLS reports whether both ends have authenticated each other by certificates.
func (i *Instance) MutualTLS() bool { return i.mtls }

// Sidecar reports whether the handler is a sidecar, which was not started by this process.
func (i *Instance) Sidecar() bool { return i.proc == nil }

// Address returns the address of the connection, for status and logs: "unix:///PATH" or "tcp://HOST:PORT".
func (i *Instance) Address() string { return i.address }

// StderrTail returns the last lines of the child's stderr, the newest last, at most 20.
func (i *Instance) StderrTail() []string {
	if i.proc == nil {
		return nil
	}
	return i.proc.stderr.lines()
}

// Stop ends the instance and waits for the end. It closes a child's stdin; if the child does not exit, it sends TERM
// after Spec.StopGrace, and KILL after the same time again, or at once when ctx is done: KILL also works on a stopped
// process. The remaining processes of its group are killed too. For a sidecar it only closes the connection.
//
// Stop always returns soon after ctx is done; an error means that the process could not be killed. It may be called
// again, and concurrently.
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
	case closedWithin(reapTime, i.stopped):
		return nil
	case i.proc == nil:
		return fmt.Errorf("stop handler %s: its connection does not close", i.name)
	}
	return fmt.Errorf("stop handler %s: process %d does not end, though it was killed", i.name, i.proc.pid)
}

// shutdown ends the process step by step and releases all resources. It runs once, until the process has ended.
func (i *Instance) shutdown() {
	defer close(i.stopped)
	if i.proc != nil {
		i.proc.endInput()
		if !closedWithin(i.grace, i.done) {
			i.log.Warn("handler lives on after the end of its stdin: sending TERM", "pid", i.proc.pid)
			i.proc.signal(syscall.SIGTERM)
			i.proc.signal(syscall.SIGCONT) // a stopped process handles TERM only then
			if !closedWithin(i.grace, i.done) {
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

// closedWithin waits at most the given time for a channel to be closed, and reports whether it is.
func closedWithin(timeout time.Duration, closed <-chan struct{}) bool {
	late := time.NewTimer(timeout)
	defer late.Stop()
	select {
	case <-closed:
		return true
	case <-late.C:
		return false
	}
}
