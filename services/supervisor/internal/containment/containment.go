// Package containment decides about what the processes of one agent do by themselves: the agent, the commands of its terminals, and all
// that they start.
//
// A sandbox asks about each action that its rules do not settle (decisions.Judge), and the agent's proxy asks about each machine
// (egress.Decider). A Decider has the gate decide by the policy. It never waits for a person: if the user has to be asked, the action is
// refused, the user is asked meanwhile, and the answer counts for the next try.
//
// The package must not know ACP's messages, nor how a client is asked: it asks and tells by the Link.
package containment

import (
	"context"
	"log/slog"
	"sync"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/sandbox"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/kernel"
	"github.com/acphost/acphost/services/supervisor/internal/session"
)

// Sandbox says how the agent's processes are confined.
type Sandbox struct {
	// How is how the sandbox confines.
	How sandbox.Confinement
	// Own are files and folders of the agent's own, absolute and without symbolic links.
	Own []string
	// Mine are files and programs that are known to be the agent's own; nil: none are.
	Mine *kernel.Own
	// Closed says why no process may connect to a machine by itself; empty: it may.
	Closed string
	// Env are variables by which the commands of terminals find the agent's proxy, each "NAME=VALUE".
	Env []string
	// Require: a command does not run if the handler of terminals cannot run it in a sandbox.
	Require bool
}

// Proxy says how the agent's proxy decides.
type Proxy struct {
	// Observe: nothing is refused, but what the proxy itself refuses.
	Observe bool
	// Listens, if set, reports whether only the agent's own processes listen at a TCP port of this machine.
	Listens func(port uint16) bool
	// Needs are the machines without which the agent does not work.
	Needs []hosts.Pattern
}

// Link is what a Decider needs of the link between the agent and its client. Its methods must be safe for concurrent use.
type Link interface {
	// Judging returns what an action of a session is judged against. cc may be nil: nothing is known of the session. seen is what has
	// been seen of the disk for the question.
	Judging(ctx context.Context, sessionID string, cc *acpv1.CallContext, seen *paths.Seen) intent.Session
	// FindPrograms finds the programs of an action's command.
	FindPrograms(resolver *programs.Resolver, a *permissionv1.Action)
	// Request returns an action as the gate decides it, by what has been seen of the disk for the question.
	Request(sessionID string, a *permissionv1.Action, seen *paths.Seen) gate.Request
	// Conclude records a decision of a session's scope. An error means that an allowance could not be recorded.
	Conclude(sessionID, scope string, d *gate.Decision, o gate.Outcome) error
	// TellDenied tells the user that an action was denied, and TellMore that more are denied than the user is told of.
	TellDenied(sessionID string, d *gate.Decision)
	TellMore(sessionID string)
	// TellReport tells the user what the policy says of an action that was not prevented.
	TellReport(sessionID string, r gate.Report)
	// AskAboutTry asks the user about something that was refused, and returns at once. It calls ended when the question has ended; if the
	// link is over, it may never do so.
	AskAboutTry(t Try, ended func())
	// Spawn runs a function in a goroutine that recovers from panics, and that the link's end waits for. If the link is over, the
	// function does not run.
	Spawn(f func())
	// Ended is closed when the link ends.
	Ended() <-chan struct{}
}

// Try is something that a process tried to do, as it was decided in one session.
type Try struct {
	Decision *gate.Decision
	Action   *permissionv1.Action
	// SessionID and Scope are the session's; empty: no session is open.
	SessionID, Scope string
	// Apart: the program would find what the agent may have mounted there.
	Apart bool
}

// Options are what a Decider is made of. All are required but AgentEnviron.
type Options struct {
	// Sessions are the agent's.
	Sessions *session.Table
	Gate     *gate.Gate
	// AgentName is the agent's configured name.
	AgentName string
	// AgentEnviron is the environment that the agent was started with; nil: the supervisor's own.
	AgentEnviron []string
	Logger       *slog.Logger
}

// Decider decides for the sandboxes and the proxy of one agent. It is safe for concurrent use.
type Decider struct {
	opts Options

	// Set before bound is closed.
	sandbox *Sandbox // nil: the agent runs in none
	proxy   Proxy
	link    Link

	bindOnce sync.Once
	bound    chan struct{}
	commands kernel.Commands
	turn     turnState

	mu      sync.Mutex
	waiting []func() // what sandboxes have refused before there was a link
}

// maxWaiting bounds what is kept for the link.
const maxWaiting = 64

// New returns a Decider that has no link yet: until Bind, what it is asked waits.
func New(o Options) *Decider { return &Decider{opts: o, bound: make(chan struct{})} }

// SetSandbox says how the agent's processes are confined, if the agent runs in a sandbox. It must be called before Bind.
func (d *Decider) SetSandbox(s *Sandbox) { d.sandbox = s }

// SetProxy says how the agent's proxy decides. It must be called before Bind.
func (d *Decider) SetProxy(p Proxy) { d.proxy = p }

// Bind gives the Decider its link. Only the first call counts.
func (d *Decider) Bind(l Link) {
	d.bindOnce.Do(func() {
		d.mu.Lock()
		d.link = l
		close(d.bound)
		waiting := d.waiting
		d.waiting = nil
		d.mu.Unlock()
		for _, tell := range waiting {
			tell()
		}
	})
}

// observes reports whether the sandbox refuses nothing, and what would be refused is recorded.
func (d *Decider) observes() bool { return d.sandbox != nil && d.sandbox.How.Observe }
