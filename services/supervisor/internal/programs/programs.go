// Package programs holds the agents of a supervisor without an editor, and the sessions with them. Programs start agents, open
// sessions and give prompts, and this package speaks ACP's client side to each agent for them.
//
// The package knows which requests the protocol lets a client make and when, what each agent offers, how an ended agent is
// started again, and which sessions are resumed then. It must not know gRPC, handlers and policies, nor how an agent's process
// is started and linked. Package admin has checked the requests of programs. Package activity makes the events of frames; this
// package adds the events that no frame shows.
//
// The agent is not trusted: its answers are checked and bounded. The package waits without a time limit only if a person has
// to act or a turn is under way.
package programs

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/activity"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/link"
)

// Spec says what to start.
type Spec struct {
	// Identity is the agent's id and name.
	Identity *frame.Agent
	// Preset is the id of the preset that Command is from; empty: it is from none.
	Preset string
	// Command is the program and its arguments, Env its whole environment.
	Command, Env []string
	// Dir is the working directory of the process; empty: the supervisor's.
	Dir string
	// Client is the agent's client.
	Client link.Client
	// Remote: the client is elsewhere and speaks ACP itself, as an editor does: it shows terminals and answers questions.
	Remote bool
}

// Process is an agent's process with its link. It is safe for concurrent use.
type Process interface {
	// PID is the process id.
	PID() int
	// StderrTail are the last lines of the agent's standard error.
	StderrTail() []string
	// Ended is closed when the link and the process are over.
	Ended() <-chan struct{}
	// Exit says how the process ended. It is valid once Ended is closed.
	Exit() agent.Exit
	// Reason says why the link ended. It is valid once Ended is closed.
	Reason() (link.Reason, error)
	// Dropped says which line of the agent was dropped first because it is no message, "; …"; empty: none was.
	Dropped() string
	// Sessions are the agent's sessions, as far as their frames tell what decisions need.
	Sessions() []*supervisorv1.Session
	// Reported is what the agent said of itself at initialize; zero before that.
	Reported() acp.Initialized
	// Forget drops a session that the agent cannot close, or was not told the end of: nothing of it is decided, routed or
	// kept any more, and its terminals are released.
	Forget(sessionID string)
	// Stop ends the link and then all processes of the agent, gently until ctx ends.
	Stop(ctx context.Context) error
}

// Options are what a Registry is made of.
type Options struct {
	// Start starts an agent, links it with the client of the spec and returns at once. Where the agent cannot be started,
	// errors.As finds an agent.Exit in the error.
	Start func(ctx context.Context, s Spec) (Process, error)
	Hub   *activity.Hub
	// Agents resolves requests for agents.
	Agents agentspec.Resolver
	// Env is the environment that agents get, whole.
	Env []string
	// Protect keeps files from all agents from now on, before an agent starts that gets what is in them. Its error is the
	// call's. Nil: nobody does.
	Protect func(ctx context.Context, files []string) error
	// InitializeTimeout is how long an agent may take to answer initialize.
	InitializeTimeout time.Duration
	// MaxRestarts is how often an agent that ends unasked is started again within ten minutes.
	MaxRestarts int
	// MaxAgents bounds the agents, MaxSessions the open sessions.
	MaxAgents, MaxSessions int
	// GatewayAgents are the agents that clients elsewhere may have, by their names. Nobody changes them.
	GatewayAgents map[string]*supervisorv1.StartAgentRequest
	// Version is acphost's, as agents are told.
	Version string
	// Logger is told of agents' lives; nil: nobody.
	Logger *slog.Logger
}

// Registry holds the agents that programs started, and their sessions. It must be closed. It is safe for concurrent use.
type Registry struct {
	opts Options
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // what Close waits for

	mu       sync.Mutex // guards what follows, and the fields of instances and sessions that say so
	agents   []*instance
	remotes  []*remote
	counts   map[string]int // the last number that was given to an agent of a name
	sessions int            // open, and being opened
	numbered uint64         // sessions so far
	turns    map[*turn]bool // under way
	draining bool
	closed   bool
}

// New returns a Registry without agents.
func New(o Options) *Registry {
	reg := &Registry{opts: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), counts: map[string]int{}, turns: map[*turn]bool{}}
	reg.ctx, reg.cancel = context.WithCancel(context.Background())
	return reg
}

// Drain lets no new agent, session or turn begin, and waits for the turns under way. When ctx ends first, they are cancelled
// and get a moment more. The error is a *TurnsError where some are under way still.
func (reg *Registry) Drain(ctx context.Context) error {
	reg.mu.Lock()
	reg.draining = true
	reg.mu.Unlock()
	if reg.quiet(ctx) {
		return nil
	}
	for _, t := range reg.underWay() {
		reg.cancelTurnOf(t)
	}
	last, cancel := context.WithTimeout(reg.ctx, drainSettle)
	defer cancel()
	if reg.quiet(last) {
		return nil
	}
	if left := len(reg.underWay()); left > 0 {
		return &TurnsError{Left: left}
	}
	return nil
}

// TurnsError says that turns have not ended, though they were cancelled.
type TurnsError struct{ Left int }

func (e *TurnsError) Error() string {
	return fmt.Sprintf("turns that had not ended %v after they were cancelled: %d; they are cut off", drainSettle, e.Left)
}

// quiet waits until no turn is under way, since none begins any more; false: ctx ended first.
func (reg *Registry) quiet(ctx context.Context) bool {
	for _, t := range reg.underWay() {
		select {
		case <-t.over:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

func (reg *Registry) underWay() []*turn {
	reg.mu.Lock()
	defer reg.mu.Unlock()
	return slices.Collect(maps.Keys(reg.turns))
}

// Close stops all agents and waits until nothing of them is left. It may be called again.
func (reg *Registry) Close() {
	reg.mu.Lock()
	reg.draining, reg.closed = true, true
	reg.mu.Unlock()
	reg.cancel()
	reg.wg.Wait()
}

// open reports whether new work may begin; mu is held.
func (reg *Registry) open() error {
	if reg.draining {
		return fault.New(fault.Precondition, "the supervisor is about to end and begins nothing new")
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for; false: it is too late. mu is held.
func (reg *Registry) spawn(f func()) bool {
	if reg.closed {
		return false
	}
	reg.wg.Go(panics.Guard(reg.log, "serving an agent", f))
	return true
}

// remove takes an agent off the list; mu is held.
func (reg *Registry) remove(a *instance) {
	reg.agents = slices.DeleteFunc(reg.agents, func(b *instance) bool { return a == b })
}
