// Package supervise keeps one handler running. It starts or dials the handler, introduces itself, and watches the
// handler's health. If the handler ends, the package starts it again, until it has failed too often or is stopped.
// While the handler runs, another program can replace it without a lost call (Swap).
//
// To this package, a handler is a connection with a life (Instance) that serves the PluginService. The package must not
// know the handler's other services, nor its callers. A caller asks for the current connection, and gets it or the
// reason why none exists, without waiting. Calls are neither queued nor repeated, because a write is not idempotent.
package supervise

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/users"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/launch"
)

// A handler's states, under short names.
const (
	Starting = supervisorv1.HandlerState_HANDLER_STATE_STARTING
	Ready    = supervisorv1.HandlerState_HANDLER_STATE_READY
	Backoff  = supervisorv1.HandlerState_HANDLER_STATE_BACKOFF
	Failed   = supervisorv1.HandlerState_HANDLER_STATE_FAILED
	Stopping = supervisorv1.HandlerState_HANDLER_STATE_STOPPING
	Stopped  = supervisorv1.HandlerState_HANDLER_STATE_STOPPED
)

// stopSlack is how much longer than its context Stop waits, so that a killed process is reaped.
const stopSlack = 5 * time.Second

// Instance is a running handler. *launch.Instance implements it and documents its methods.
type Instance interface {
	grpc.ClientConnInterface
	// Ping checks the handler's health; an error is a failed check.
	Ping(ctx context.Context) error
	// Done returns a channel that is closed when the process has ended or the connection is lost.
	Done() <-chan struct{}
	// Err returns the reason after Done.
	Err() error
	// PID returns the process id, 0 for a sidecar.
	PID() int
	// Digest returns the program's digest; empty for a sidecar.
	Digest() string
	MutualTLS() bool
	// Stop ends the instance, at once if ctx has ended, and always returns soon after that.
	Stop(ctx context.Context) error
}

// Options configure a Handler.
type Options struct {
	// Name is the handler's name in the configuration. Required.
	Name string
	// Kind is the kind of methods that the handler is configured for: "fs", "terminal", "permission", "extension". For
	// logs.
	Kind string
	// Spec describes how to start the handler or connect to it.
	Spec launch.Spec
	// Configure is sent after each start; a sidecar gets it with validate_only. Nil: empty settings.
	Configure *pluginv1.ConfigureRequest
	// Needs are the services that a restarted handler must have; it may be another program, or another sidecar at the
	// same address. Nil: exactly the services of the first start, since routes depend on them.
	Needs []string
	// Version is the supervisor's, sent with Describe. May be empty.
	Version string
	// OnChange is called after each change of state, in order, one call at a time. It must return soon, and must not
	// call Stop, Swap or Restart. The status has no digest. Nil: not called.
	OnChange func(*supervisorv1.HandlerStatus)
	// Changed is called after each change of the answering handler, or of its settings or kept data, from any goroutine
	// and possibly without a change. It must return soon, and must not call the Handler. Nil: not called.
	Changed func()
	// Logger logs changes of state. Nil: nothing is logged.
	Logger *slog.Logger
	// Start replaces launch.Start. pin is the digest that the program must have; empty: any. An error that wraps a
	// *SwappedError reports another digest.
	Start func(ctx context.Context, pin string) (Instance, error)
}

// Handler keeps one handler running. All methods are safe for concurrent use.
type Handler struct {
	name string
	opts Options
	log  *slog.Logger

	verbs chan struct{} // semaphore of Swap, Restart and Configure
	order sync.Mutex    // held during a change of state and its OnChange; taken before mu

	mu         sync.Mutex
	target     target                     // guarded by mu, as are the fields below
	life       *life                      // the current one; nil: not started
	state      supervisorv1.HandlerState  // of life
	since      time.Time                  // of state; for a ready handler: of current
	changed    chan struct{}              // closed and replaced at each change of state
	cause      error                      // why it is not ready, or why it last ended
	current    *attached                  // the ready instance; nil: none
	describe   *pluginv1.DescribeResponse // of the first start of target
	last       last                       // of the latest instance
	pin        pin                        // of the first start of target
	restarts   uint64                     // starts after an end; for a sidecar: connections after the first
	configures uint64                     // changes before and after each Configure of the running instance
	keep       []byte                     // data of the latest instance to be kept; nil: none
	scopes     map[string]bool
	guarded    []string           // paths protected since New, in addition to those of target
	ctx        context.Context    // parent of all lives
	cancel     context.CancelFunc // ends ctx; nil: not started
	stopCtx    context.Context    // of the first Stop; nil: none
}

// target describes the handler to run and its configuration.
type target struct {
	spec      launch.Spec
	configure *pluginv1.ConfigureRequest
	start     func(ctx context.Context, pin string) (Instance, error)
}

// newTarget returns a target with a function to start it.
func newTarget(spec launch.Spec, conf *pluginv1.ConfigureRequest, start func(context.Context, string) (Instance, error)) target {
	if start == nil {
		start = starter(spec)
	}
	return target{spec: spec, configure: conf, start: start}
}

func (t *target) sidecar() bool { return t.spec.Address != "" }

// user returns the user that the handler runs as, if known.
func (t *target) user() string {
	switch spec := &t.spec; {
	case spec.User != nil:
		return spec.User.String()
	case !t.sidecar():
		return users.Self()
	case spec.UID != nil:
		return strconv.FormatUint(uint64(*spec.UID), 10)
	case spec.TLS == nil:
		return strconv.Itoa(os.Geteuid())
	}
	return ""
}

// last holds the shown properties of the latest instance.
type last struct {
	description string
	notes       []string
	mutualTLS   bool
	pid         int
}

// New returns a Handler that is not started.
func New(o Options) *Handler {
	h := &Handler{
		name: o.Name, opts: o, log: o.Logger, target: newTarget(o.Spec, o.Configure, o.Start),
		verbs: make(chan struct{}, 1), changed: make(chan struct{}),
		since: time.Now(), scopes: map[string]bool{},
		state: Starting, // the state that Start begins with
	}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	h.log = h.log.With("handler", o.Name)
	return h
}

// Start starts the handler and returns at once. The handler runs until Stop: ctx only supplies values. A second call,
// or one after Stop, does nothing.
func (h *Handler) Start(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel != nil || h.stopCtx != nil {
		return
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.beginLocked(nil)
}

// Ready waits until the handler is ready. It returns an error if that cannot happen any more (the first start failed,
// the handler ended too often, it was stopped), or if ctx ends first.
func (h *Handler) Ready(ctx context.Context) error {
	for {
		h.mu.Lock()
		state, cause, changed := h.stateLocked(), h.cause, h.changed
		h.mu.Unlock()
		switch state {
		case Ready:
			return nil
		case Failed, Stopping, Stopped:
			return &Unavailable{Name: h.name, State: state, Cause: cause}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", &Unavailable{Name: h.name, State: state, Cause: cause}, context.Cause(ctx))
		}
	}
}

// Conn returns the connection to the current instance. It does not block: its error is an *Unavailable. The connection
// is valid for this run of the handler: call Conn for each call. A call that begins after the instance was replaced
// goes to the replacement.
func (h *Handler) Conn() (grpc.ClientConnInterface, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch state := h.stateLocked(); {
	case state == Ready:
		return h.current, nil
	case h.current != nil:
		return nil, &Unavailable{Name: h.name, State: state, Cause: h.current.Err(), Sidecar: h.target.sidecar()}
	default:
		return nil, &Unavailable{Name: h.name, State: state, Cause: h.cause, Sidecar: h.target.sidecar()}
	}
}

// Describe returns the description from the handler's first start or from the latest swap; nil before. It must not be
// changed.
func (h *Handler) Describe() *pluginv1.DescribeResponse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.describe
}

// Configured returns the original configuration, regardless of swaps; nil: none. It must not be changed.
func (h *Handler) Configured() *pluginv1.ConfigureRequest { return h.opts.Configure }

// Hold keeps the handler's state of a scope alive, in this run of the handler and in later ones, until Drop. It does
// not wait for the handler. A second Hold of a scope has no effect.
func (h *Handler) Hold(scope string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.scopes[scope] {
		return
	}
	h.scopes[scope] = true
	if h.current != nil {
		h.current.hold(scope)
	}
}

// Drop ends Hold: the handler releases the state of the scope, at once if it implements that, otherwise 10 s later. It
// does not wait.
func (h *Handler) Drop(scope string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.scopes, scope)
	if h.current != nil {
		h.current.drop(scope)
	}
}

// Status returns the status for operators, without the digest. The caller fills in the methods, which depend on the
// routes.
func (h *Handler) Status() *supervisorv1.HandlerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statusLocked()
}

// Digest returns the SHA-256 of the program that a restart would start, in lower-case hexadecimal; empty for a sidecar,
// before the first start, and if the program changed before its digest was computed. It may take some 10 ms.
func (h *Handler) Digest() string {
	h.mu.Lock()
	pin := h.pin
	h.mu.Unlock()
	if pin == nil {
		return ""
	}
	return pin()
}

// Stop stops the handler as Instance.Stop does, and waits. It always returns soon after ctx ends; an error means that a
// process may be left. It aborts an active swap or restart. It may be called repeatedly, concurrently, and before
// Start.
func (h *Handler) Stop(ctx context.Context) error {
	h.mu.Lock()
	h.stopCtx = cmp.Or(h.stopCtx, ctx)
	if h.cancel == nil {
		h.setLocked(Stopped, nil)
		h.mu.Unlock()
		return nil
	}
	h.cancel()
	l := h.life
	h.mu.Unlock()

	if !h.gone(ctx, l) {
		return fmt.Errorf("stop handler %s: it has not ended", h.name)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if left, ok := errors.AsType[*notStopped](h.cause); ok {
		return left.error
	}
	h.setLocked(Stopped, h.cause) // the cause of an earlier failure
	return nil
}

// gone waits until a life and active swaps have ended, at most until shortly after ctx ends.
func (h *Handler) gone(ctx context.Context, l *life) bool {
	ended := l.done
	taken := h.verbs
	var late <-chan time.Time
	over := ctx.Done()
	for ended != nil || taken != nil {
		select {
		case <-ended:
			ended = nil
		case taken <- struct{}{}:
			taken = nil
			defer h.release()
		case <-over:
			over, late = nil, time.After(stopSlack)
		case <-late:
			return false
		}
	}
	return true
}

// notStopped is the cause of a Stopped handler whose process may be left.
type notStopped struct{ error }

func (n *notStopped) Unwrap() error { return n.error }

// stateLocked returns the state; Backoff if the instance has ended and run has not handled that yet.
func (h *Handler) stateLocked() supervisorv1.HandlerState {
	if h.current != nil && isOver(h.current) {
		return Backoff
	}
	return h.state
}

func (h *Handler) statusLocked() *supervisorv1.HandlerStatus {
	s := &supervisorv1.HandlerStatus{
		Name: h.name, State: h.state, Description: h.last.description, Command: h.target.spec.Command,
		Address: h.target.spec.Address, MutualTls: h.last.mutualTLS, Restarts: h.restarts,
		Since: timestamppb.New(h.since), Notes: h.last.notes, User: h.target.user(),
	}
	if h.current != nil || h.state == Stopping {
		s.Pid = int64(h.last.pid)
	}
	if h.cause != nil {
		s.Error = h.cause.Error()
	}
	return s
}

// set changes the state, wakes waiters, and calls OnChange. It returns false, without a change, if the life was
// replaced.
func (h *Handler) set(l *life, state supervisorv1.HandlerState, cause error) bool {
	return h.changeOf(l, func() { h.setLocked(state, cause) })
}

// changeOf is change, unless the life was replaced.
func (h *Handler) changeOf(l *life, step func()) bool {
	return h.change(func() bool {
		if h.life != l {
			return false
		}
		step()
		return true
	})
}

func (h *Handler) notifyChanged() {
	if h.opts.Changed != nil {
		h.opts.Changed()
	}
}

// change applies step and reports the change, in order with other changes. It calls step with mu held; step returns
// whether anything changed.
func (h *Handler) change(step func() bool) bool {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	changed := step()
	status := h.statusLocked()
	h.mu.Unlock()
	h.notifyChanged()
	if changed && h.opts.OnChange != nil {
		h.opts.OnChange(status)
	}
	return changed
}

func (h *Handler) setLocked(state supervisorv1.HandlerState, cause error) {
	h.cause = cause
	if h.state != state {
		h.state, h.since = state, time.Now()
	}
	close(h.changed)
	h.changed = make(chan struct{})
}
