// Package programs holds the agents of a supervisor without an editor, and the sessions with them. Programs start
// agents, open sessions and send prompts, and this package speaks ACP's client side to each agent for them.
//
// The package knows which requests the protocol lets a client make and when, what each agent offers, how an ended agent
// is restarted, and which sessions are resumed then. It must not know gRPC, handlers and policies, nor how an agent's
// process is started and linked. Package admin has validated the requests of programs. Package activity creates the
// events of frames; this package adds the events without a frame.
//
// The agent is not trusted: its answers are validated and bounded. The package waits without a time limit only if a
// person has to act or a turn is active.
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

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/panics"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// Spec describes an agent to start.
type Spec struct {
	// Identity is the agent's id and name.
	Identity *frame.Agent
	// Preset is the id of the preset that Command comes from; empty: none.
	Preset string
	// Command is the program and its arguments, Env its whole environment.
	Command, Env []string
	// Dir is the working directory of the process; empty: the supervisor's.
	Dir string
	// Client is the agent's client.
	Client link.Client
	// Remote means that the client is remote and speaks ACP itself, as an editor does: it shows terminals and answers
	// questions.
	Remote bool
}

// Process is an agent's process with its link. It is safe for concurrent use.
type Process interface {
	// PID returns the process id.
	PID() int
	// StderrTail returns the last lines of the agent's standard error.
	StderrTail() []string
	// Ended returns a channel that is closed when the link and the process have ended.
	Ended() <-chan struct{}
	// Exit returns how the process ended. It is valid once Ended is closed.
	Exit() agent.Exit
	// Reason returns why the link ended. It is valid once Ended is closed.
	Reason() (link.Reason, error)
	// Dropped returns the end of an error, "; …", that quotes the first line of the agent that was discarded because it
	// is not a message, or "".
	Dropped() string
	// RefusedAtStart returns the end of an error, "; …", with the first actions of the agent that the sandbox refused
	// while no session was open, or "".
	RefusedAtStart() string
	// Sessions returns the agent's sessions with the state that decisions need, as known from frames.
	Sessions() []*supervisorv1.Session
	// Reported returns the agent's answer to initialize; zero before that.
	Reported() acp.Initialized
	// Forget removes a session that the agent cannot close, or was not asked to close: its calls are not decided or
	// routed any more, its state is removed, and its terminals are released.
	Forget(sessionID string)
	// Stop ends the link and then all processes of the agent, gracefully until ctx ends.
	Stop(ctx context.Context) error
}

// Options configure a Registry.
type Options struct {
	// Start starts an agent, links it with the client of the spec and returns at once. If the agent cannot be started,
	// the error wraps an agent.Exit.
	Start func(ctx context.Context, s Spec) (Process, error)
	Hub   *activity.Hub
	// Agents resolves requests for agents.
	Agents agentspec.Resolver
	// Env is the whole environment of agents.
	Env []string
	// Protect protects files from all agents from now on. It is called before an agent starts that gets their contents;
	// its error fails that start. Nil is not called.
	Protect func(ctx context.Context, files []string) error
	// InitializeTimeout limits the time until an agent answers initialize.
	InitializeTimeout time.Duration
	// MaxRestarts limits the restarts within ten minutes of an agent that ends unexpectedly.
	MaxRestarts int
	// MaxAgents limits the agents, MaxSessions the open sessions.
	MaxAgents, MaxSessions int
	// GatewayAgents are the agents for remote clients, by name. They must not be changed.
	GatewayAgents map[string]*supervisorv1.StartAgentRequest
	// Version is acphost's version for agents.
	Version string
	// Logger logs starts and ends of agents; nil: nothing is logged.
	Logger *slog.Logger
}

// Registry holds the agents that programs started, and their sessions. The caller closes it. It is safe for concurrent
// use.
type Registry struct {
	opts Options
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // goroutines that Close waits for

	mu       sync.Mutex // guards the fields below, and the fields of instances and sessions that name it
	agents   []*instance
	remotes  []*remote
	counts   map[string]int // the latest number of an agent, by name
	sessions int            // open sessions and sessions that are being opened
	numbered uint64         // number of sessions ever opened
	turns    map[*turn]bool // active turns
	draining bool
	closed   bool
}

// New returns a Registry without agents.
func New(o Options) *Registry {
	reg := &Registry{opts: o, log: cmp.Or(o.Logger, slog.New(slog.DiscardHandler)), counts: map[string]int{}, turns: map[*turn]bool{}}
	reg.ctx, reg.cancel = context.WithCancel(context.Background())
	return reg
}

// Drain rejects new agents, sessions and turns, and waits for active turns. If ctx ends first, it cancels them and
// waits a moment. The error is a *TurnsError if turns are still active.
func (reg *Registry) Drain(ctx context.Context) error {
	reg.mu.Lock()
	reg.draining = true
	reg.mu.Unlock()
	if reg.waitNoTurns(ctx) {
		return nil
	}
	for _, t := range reg.underWay() {
		reg.cancelTurnOf(t)
	}
	last, cancel := context.WithTimeout(reg.ctx, drainSettle)
	defer cancel()
	if reg.waitNoTurns(last) {
		return nil
	}
	if left := len(reg.underWay()); left > 0 {
		return &TurnsError{Left: left}
	}
	return nil
}

// TurnsError has the number of cancelled turns that have not ended.
type TurnsError struct{ Left int }

func (e *TurnsError) Error() string {
	return fmt.Sprintf("turns that had not ended %v after they were cancelled: %d; they are cut off", drainSettle, e.Left)
}

// waitNoTurns waits until no turn is active. New ones are rejected. It returns false if ctx ended first.
func (reg *Registry) waitNoTurns(ctx context.Context) bool {
	for _, t := range reg.underWay() {
		select {
		case <-t.done:
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

// Close stops all agents and waits until their processes and goroutines have ended. It may be called again.
func (reg *Registry) Close() {
	reg.mu.Lock()
	reg.draining, reg.closed = true, true
	reg.mu.Unlock()
	reg.cancel()
	reg.wg.Wait()
}

// open returns an error if new work is rejected; mu is held.
func (reg *Registry) open() error {
	if reg.draining {
		return fault.New(fault.Precondition, "the supervisor is about to end and begins nothing new")
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for; false: Close was called. mu is held.
func (reg *Registry) spawn(f func()) bool {
	if reg.closed {
		return false
	}
	reg.wg.Go(panics.Guard(reg.log, "serving an agent", f))
	return true
}

// remove removes an agent; mu is held.
func (reg *Registry) remove(a *instance) {
	reg.agents = slices.DeleteFunc(reg.agents, func(b *instance) bool { return a == b })
}
