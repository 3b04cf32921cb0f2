// Package headless holds the agents of a supervisor that no editor started, and the sessions with them: programs start
// agents, open sessions and give prompts, and this package speaks ACP's client side to each agent on their behalf.
//
// It knows what the protocol lets a client ask for and when, what each agent offers, how an agent that ended is started
// again, and which sessions are then resumed. It knows nothing of gRPC, of handlers and policies, and of how an agent's
// process is run and linked: a Starter does that. What happens in sessions is told by the Hub, which sees every frame; this
// package tells what no frame shows.
//
// An agent is not trusted: whatever it answers is checked and bounded, and an answer that does not come is not waited for
// without end, but where a person has to act or a turn is under way.
package headless

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/fault"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/link"
)

// Starter starts agents.
type Starter interface {
	// Start starts an agent, links it with the front of the spec and returns at once. Where the agent cannot be started,
	// errors.As finds an agent.Exit in the error.
	Start(ctx context.Context, s Spec) (Joint, error)
}

// Spec says what to start.
type Spec struct {
	// Identity is the agent's id and name.
	Identity *frame.Agent
	// Command is the program and its arguments, Env its whole environment.
	Command, Env []string
	// Dir is the working directory of the process; empty: the supervisor's.
	Dir string
	// Front is who plays its client.
	Front link.Front
	// Attended tells whether somebody answers questions.
	Attended func() bool
}

// Joint is an agent's process with its link. It is safe for concurrent use.
type Joint interface {
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
	// Sessions are the agent's sessions, as far as their frames tell what decisions need.
	Sessions() []*supervisorv1.Session
	// Stop ends the link and then all processes of the agent, gently until ctx ends.
	Stop(ctx context.Context) error
}

// Forgetter is a Joint that can forget a session which its agent cannot close: nothing of it is decided, routed or kept
// any more, and its terminals are released.
type Forgetter interface{ Forget(sessionID string) }

// Hub tells what happens. It is safe for concurrent use.
type Hub interface {
	// Subscribe begins to gather the events of an agent's session, or of all its sessions and itself for an empty session
	// id, that happen from now on.
	Subscribe(agentID, sessionID string) Subscription
	// Publish tells of something that no frame shows.
	Publish(e *supervisorv1.Event)
	// Tell records and tells a notification of acphost's about an agent's session.
	Tell(agentID string, line []byte)
	// WaitRoom waits while events of an agent are not taken as fast as they come.
	WaitRoom(ctx context.Context, agentID string) error
	// Show fills in what events told of a session.
	Show(agentID string, s *supervisorv1.Session)
	// Settle waits until what passed before it is known to Show, and was handed to subscriptions.
	Settle(ctx context.Context) error
	// Forget drops what is known of an agent that is gone for good.
	Forget(agentID string)
}

// Subscription are events, in order and without a gap.
type Subscription interface {
	// Next waits for the next event. It fails for good where the subscription was not read for too long; io.EOF follows the
	// last event where it was closed.
	Next(ctx context.Context) (*supervisorv1.Event, error)
	// Close ends it: what happened before can still be read. It may be called again.
	Close()
}

// Defaults of Options.
const (
	DefaultMaxAgents   = 32
	DefaultMaxSessions = 1000
)

// Options are what a Headless is made of.
type Options struct {
	Starter Starter
	Hub     Hub
	// Attended tells whether somebody answers questions now; nil: nobody does.
	Attended func() bool
	// Presets resolves the name of a preset to its command, to environment variables ("NAME=value") on top of others, and to
	// its id. Nil: there are none.
	Presets func(ctx context.Context, name string) (command, env []string, id string, err error)
	// Env is the environment that agents get, whole; nil: the supervisor's own.
	Env []string
	// ConfigEnv are further variables for all agents, with files' absolute paths.
	ConfigEnv map[string]*supervisorv1.EnvValue
	// Protect keeps files from all agents from now on, before an agent starts that gets what is in them. Its error is the
	// call's. Nil: nobody does.
	Protect func(ctx context.Context, files []string) error
	// InitializeTimeout is how long an agent may take to answer initialize. Default: 60 s.
	InitializeTimeout time.Duration
	// MaxRestarts is how often an agent that ends unasked is started again within ten minutes.
	MaxRestarts int
	// MaxAgents bounds the agents, MaxSessions the open sessions. Defaults: DefaultMaxAgents, DefaultMaxSessions.
	MaxAgents, MaxSessions int
	// Version is acphost's, as agents are told.
	Version string
	// Logger is told of agents' lives; nil: nobody.
	Logger *slog.Logger
}

// Headless holds agents and their sessions. It must be closed. It is safe for concurrent use.
type Headless struct {
	opts Options
	log  *slog.Logger

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // what Close waits for

	mu       sync.Mutex // guards what follows, and the fields of instances and sessions that say so
	agents   []*instance
	counts   map[string]int // the last number that was given to an agent of a name
	sessions int            // open, and being opened
	numbered uint64         // sessions so far
	turns    int            // under way
	idle     chan struct{}  // closed, and gone, when no turn is under way; nil: nobody waits
	draining bool
	closed   bool
}

// New returns a Headless without agents.
func New(o Options) *Headless {
	if o.InitializeTimeout <= 0 {
		o.InitializeTimeout = time.Minute
	}
	if o.MaxAgents <= 0 {
		o.MaxAgents = DefaultMaxAgents
	}
	if o.MaxSessions <= 0 {
		o.MaxSessions = DefaultMaxSessions
	}
	if o.Env == nil {
		o.Env = os.Environ()
	}
	if o.Attended == nil {
		o.Attended = func() bool { return false }
	}
	h := &Headless{opts: o, log: o.Logger, counts: map[string]int{}}
	if h.log == nil {
		h.log = slog.New(slog.DiscardHandler)
	}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	return h
}

// Drain lets no new agent, session or turn begin, and waits for the turns under way. When ctx ends first, they are cancelled
// and get a moment more; the error is ctx's where some are under way still.
func (h *Headless) Drain(ctx context.Context) error {
	h.mu.Lock()
	h.draining = true
	h.mu.Unlock()
	if h.quiet(ctx) {
		return nil
	}
	for _, s := range h.prompting() {
		h.cancelTurn(s)
	}
	last, cancel := context.WithTimeout(h.ctx, cancelSettle)
	defer cancel()
	if h.quiet(last) {
		return nil
	}
	return ctx.Err()
}

// quiet waits until no turn is under way; false: ctx ended first.
func (h *Headless) quiet(ctx context.Context) bool {
	h.mu.Lock()
	if h.turns == 0 {
		h.mu.Unlock()
		return true
	}
	if h.idle == nil {
		h.idle = make(chan struct{})
	}
	idle := h.idle
	h.mu.Unlock()
	select {
	case <-idle:
		return true
	case <-ctx.Done():
		return false
	}
}

// prompting are the sessions with a turn under way.
func (h *Headless) prompting() []*session {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []*session
	for _, a := range h.agents {
		for _, s := range a.sessions {
			if s.turn != nil {
				all = append(all, s)
			}
		}
	}
	return all
}

// Close stops all agents and waits until nothing of them is left. It may be called again.
func (h *Headless) Close() {
	h.mu.Lock()
	h.draining, h.closed = true, true
	h.mu.Unlock()
	h.cancel()
	h.wg.Wait()
}

// open tells whether new work may begin; mu is held.
func (h *Headless) open() error {
	if h.draining {
		return fault.New(fault.Precondition, "the supervisor is about to end and begins nothing new")
	}
	return nil
}

// spawn runs f in a goroutine that Close waits for; false: it is too late. mu is held.
func (h *Headless) spawn(f func()) bool {
	if h.closed {
		return false
	}
	h.wg.Go(f)
	return true
}

// remove takes an agent off the list; mu is held.
func (h *Headless) remove(a *instance) {
	h.agents = slices.DeleteFunc(h.agents, func(b *instance) bool { return a == b })
}
