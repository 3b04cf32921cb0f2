// Package supervise keeps one handler running. It starts or dials the handler, introduces itself, and watches the handler's
// health. If the handler ends, the package starts it again, until it has failed too often or is told to stop. While the
// handler runs, another program can take its place without a lost call (Swap).
//
// To this package, a handler is a connection with a life (Instance) that serves the PluginService. The package must not know
// which other services the handler has, nor who calls it. A caller asks for the current connection, and gets it or the reason
// why there is none, at once. Calls are neither queued nor repeated, because a write is not idempotent.
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

// stopSlack is how much longer than its context Stop waits, so that a killed process can be waited for.
const stopSlack = 5 * time.Second

// Instance is a handler that runs. *launch.Instance is one; each method's promise is written there.
type Instance interface {
	grpc.ClientConnInterface
	// Ping asks for the handler's health; an error is a miss.
	Ping(ctx context.Context) error
	// Done is closed when the process has ended or the connection is lost.
	Done() <-chan struct{}
	// Err says why, after Done.
	Err() error
	// PID is 0 for a sidecar.
	PID() int
	// Digest is the program's; empty for a sidecar.
	Digest() string
	MutualTLS() bool
	// Stop ends it, at once if ctx is over, and returns soon after that in every case.
	Stop(ctx context.Context) error
}

// Options say which handler to keep running.
type Options struct {
	// Name is the handler's name in the configuration. Required.
	Name string
	// Kind is what the handler is configured to answer: "fs", "terminal", "permission", "extension". For logs.
	Kind string
	// Spec starts or dials it.
	Spec launch.Spec
	// Configure is sent after each start, to a sidecar with validate_only. Nil: empty settings.
	Configure *pluginv1.ConfigureRequest
	// Needs are the services that the handler must have when it comes back, perhaps as another program: another sidecar at the
	// same address. Nil: those that it had at first, and no others, since routes were made for them.
	Needs []string
	// Version is the supervisor's, sent with Describe. May be empty.
	Version string
	// OnChange is called after each change of state, in order, one call at a time: it must return soon, and must not
	// call Stop, Swap or Restart. The status has no digest. Nil: nobody is told.
	OnChange func(*supervisorv1.HandlerStatus)
	// Changed is called after each change of the handler that answers, or of what it goes by, from any goroutine and
	// perhaps without a change. It must return soon, and must not call the Handler. Nil: nobody is told.
	Changed func()
	// Logger takes the changes of state. Nil: nothing is logged.
	Logger *slog.Logger
	// Start replaces launch.Start. pin is the digest that the program must have; empty: any. An error that wraps a
	// *SwappedError says that it has another one.
	Start func(ctx context.Context, pin string) (Instance, error)
}

// Handler is a handler that is kept running. All methods are safe for concurrent use.
type Handler struct {
	name string
	opts Options
	log  *slog.Logger

	verbs chan struct{} // taken by Swap, Restart and Configure, one at a time
	order sync.Mutex    // makes changes of state and their OnChange one step; taken before mu

	mu       sync.Mutex
	target   target                     // guarded by mu, as is all that follows
	life     *life                      // the one that counts; nil: not started
	state    supervisorv1.HandlerState  // of life
	since    time.Time                  // of state; of a handler that is ready: of current
	changed  chan struct{}              // closed and replaced at each change of state
	cause    error                      // why it is not ready, or why it last ended
	current  *attached                  // the one that is ready; nil: none
	describe *pluginv1.DescribeResponse // of the first start of target
	last     last                       // of the latest instance
	pin      pin                        // of the first start of target
	restarts uint64                     // starts after an end; of a sidecar: connections after the first
	told     uint64                     // changes before and after each Configure of the instance that runs
	keep     []byte                     // what the latest instance gave to be kept; nil: nothing
	scopes   map[string]bool
	guarded  []string           // paths that were protected since New, beside those of target
	ctx      context.Context    // of every life
	cancel   context.CancelFunc // ends ctx; nil: not started
	stopCtx  context.Context    // of the first Stop; nil: none
}

// target is what is kept running.
type target struct {
	spec      launch.Spec
	configure *pluginv1.ConfigureRequest
	start     func(ctx context.Context, pin string) (Instance, error)
}

// newTarget fills in how to start.
func newTarget(spec launch.Spec, conf *pluginv1.ConfigureRequest, start func(context.Context, string) (Instance, error)) target {
	if start == nil {
		start = starter(spec)
	}
	return target{spec: spec, configure: conf, start: start}
}

func (t *target) sidecar() bool { return t.spec.Address != "" }

// user is who the handler runs as, as far as that is known from here.
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

// last is what is shown of the latest instance.
type last struct {
	description string
	notes       []string
	mutualTLS   bool
	pid         int
}

// New makes a handler. Nothing is started.
func New(o Options) *Handler {
	h := &Handler{
		name: o.Name, opts: o, log: o.Logger, target: newTarget(o.Spec, o.Configure, o.Start),
		verbs: make(chan struct{}, 1), changed: make(chan struct{}),
		since: time.Now(), scopes: map[string]bool{},
		state: Starting, // what it will do as soon as it may
	}
	h.log = cmp.Or(h.log, slog.New(slog.DiscardHandler))
	h.log = h.log.With("handler", o.Name)
	return h
}

// Start begins to keep the handler running and returns at once. It lives until Stop: ctx lends its values only. A second
// call, or one after Stop, does nothing.
func (h *Handler) Start(ctx context.Context) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.cancel != nil || h.stopCtx != nil {
		return
	}
	h.ctx, h.cancel = context.WithCancel(context.WithoutCancel(ctx))
	h.beginLocked(nil)
}

// Ready waits until the handler is ready. It returns why it never will be: its first start failed, it ended too often,
// it was stopped; or that ctx ended first.
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

// Conn returns the connection to the handler as it runs now. It never waits: an error is an *Unavailable. The connection
// is good for as long as this run of the handler: ask again for each call. A call that was not made yet when another
// instance took its place goes to that one.
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

// Describe returns what the handler said of itself at its first start, or when it was swapped in; nil before. It must
// not be changed.
func (h *Handler) Describe() *pluginv1.DescribeResponse {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.describe
}

// Configured is what the handler was to be configured with at first, whatever was swapped in since; nil: nothing. It must
// not be changed.
func (h *Handler) Configured() *pluginv1.ConfigureRequest { return h.opts.Configure }

// Hold keeps what the handler has of a scope alive, in this run of it and in every later one, until Drop. It does not
// wait for the handler. Holding a scope twice is the same as once.
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

// Drop ends Hold: the handler releases what it has of the scope, at once if it can, else 10 s later. It does not wait.
func (h *Handler) Drop(scope string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.scopes, scope)
	if h.current != nil {
		h.current.drop(scope)
	}
}

// Status is what an operator sees, but for the digest. Its methods are for who knows the routes to fill in.
func (h *Handler) Status() *supervisorv1.HandlerStatus {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.statusLocked()
}

// Digest is the SHA-256 of the program that is started again should the handler end, in lower-case hexadecimal; empty for a
// sidecar, before the first start, and where the program changed before it was measured. It may take some 10 ms.
func (h *Handler) Digest() string {
	h.mu.Lock()
	pin := h.pin
	h.mu.Unlock()
	if pin == nil {
		return ""
	}
	return pin()
}

// Stop ends the handler as Instance.Stop does, and waits. It returns soon after ctx is over in every case; an error says
// that a process may be left. A swap or restart that is under way is given up. It may be called again, by several at
// once, and before Start.
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
	h.setLocked(Stopped, h.cause) // where it had failed before
	return nil
}

// gone waits for the end of a life, and for what swaps have in hand; no longer than a moment after ctx.
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

// stateLocked is the state, and Backoff for an instance whose end was not worked on yet.
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

// set changes the state, tells who waits, and then who wants to know. False: another life has taken the place of this one,
// which changes nothing any more.
func (h *Handler) set(l *life, state supervisorv1.HandlerState, cause error) bool {
	return h.changeOf(l, func() { h.setLocked(state, cause) })
}

// changeOf is change for a life, if that still counts.
func (h *Handler) changeOf(l *life, step func()) bool {
	return h.change(func() bool {
		if h.life != l {
			return false
		}
		step()
		return true
	})
}

func (h *Handler) tellChanged() {
	if h.opts.Changed != nil {
		h.opts.Changed()
	}
}

// change makes one step of a change, which is called with mu held and reports whether there was one, and of telling of it.
func (h *Handler) change(step func() bool) bool {
	h.order.Lock()
	defer h.order.Unlock()
	h.mu.Lock()
	changed := step()
	status := h.statusLocked()
	h.mu.Unlock()
	h.tellChanged()
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
