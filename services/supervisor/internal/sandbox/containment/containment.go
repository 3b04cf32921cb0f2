// Package containment decides about process actions of one agent: actions of the agent, of the commands of its
// terminals, and of all processes that they start.
//
// A sandbox asks about each action that its rules do not decide (decisions.Judge). The agent's proxy asks about each
// machine (egress.Decider). A Decider asks the gate, which applies the policy. A Decider never waits for a person. If
// the user has to be asked, it refuses the action and asks the user; the answer applies to the next try.
//
// The package must not know ACP's messages, nor how a client is asked. It reaches the user through the Link.
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
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// Sandbox describes how the agent's processes are confined.
type Sandbox struct {
	// How is the configuration of the sandbox.
	How sandbox.Confinement
	// Own are the agent's files and folders, absolute and without symbolic links.
	Own []string
	// Mine are the files and programs that are known to belong to the agent; nil: none.
	Mine *kernel.Own
	// Closed is the reason why no process may connect to a machine directly; empty: processes may connect.
	Closed string
	// Env are variables for the commands of terminals, each "NAME=VALUE": the agent's proxy, and its folders for
	// temporary files and caches.
	Env []string
	// Require: a command does not run if the handler of terminals cannot run it in a sandbox.
	Require bool
	// MaxProcesses is the maximum number of processes of a command that does not run in Group. 0: no maximum.
	MaxProcesses int
	// Group is the folder of the agent's control group, for commands on this machine. Empty: none.
	Group string
	// Terminals: the handlers of terminals run commands in a sandbox. Since commands are then decided as contained, a
	// handler that no longer can runs none.
	Terminals bool
}

// walls returns the walls around a process in the sandbox.
func (s *Sandbox) walls() []permissionv1.Wall {
	if s == nil || s.How.Observe {
		return nil
	}
	walls := []permissionv1.Wall{permissionv1.Wall_WALL_FILES}
	if s.How.Reads {
		walls = append(walls, permissionv1.Wall_WALL_READS)
	}
	if s.How.Closed {
		walls = append(walls, permissionv1.Wall_WALL_NETWORK)
	}
	return walls
}

// Proxy describes how the decisions for the agent's proxy are made.
type Proxy struct {
	// Observe: nothing is refused, except what the proxy itself refuses.
	Observe bool
	// Machines are those that the agent is known to connect to.
	Machines hosts.Known
}

// Link is the part of the link between the agent and its client that a Decider uses. Its methods must be safe for
// concurrent use.
type Link interface {
	// Judging returns the session state that an action is judged against. cc may be nil if nothing is known of the
	// session. seen caches the look-ups of paths for one request.
	Judging(ctx context.Context, sessionID string, cc *acpv1.CallContext, seen *paths.Cache) intent.Session
	// FindPrograms resolves the programs of an action's command.
	FindPrograms(resolver *programs.Resolver, a *permissionv1.Action)
	// Request returns an action as a request to the gate. seen caches the look-ups of paths for one request.
	Request(sessionID string, a *permissionv1.Action, seen *paths.Cache) gate.Request
	// Conclude records a decision for a session's scope. An error means that an allowance could not be recorded.
	Conclude(sessionID, scope string, d *gate.Decision, o gate.Outcome) error
	// TellDenied notifies the user that an action was denied. TellMore notifies the user that further denials are not
	// shown.
	TellDenied(sessionID string, d *gate.Decision)
	TellMore(sessionID string)
	// TellReport notifies the user of the policy's decision about an action that was not prevented.
	TellReport(sessionID string, r gate.Report)
	// AskAboutTry asks the user about a refused action, and returns at once. It calls ended when the question has
	// ended, with whether the next try is allowed; t.Decision.Reason is then the reason of the end. If the link has
	// ended, it may never call ended.
	AskAboutTry(t Try, ended func(allowed bool))
	// Spawn runs a function in a goroutine that recovers from panics. The link waits for the goroutine when it ends. If
	// the link has ended, the function does not run.
	Spawn(f func())
	// Ended is closed when the link ends.
	Ended() <-chan struct{}
}

// Try is an action that a process tried, with the decision about it in one session.
type Try struct {
	Decision *gate.Decision
	Action   *permissionv1.Action
	// SessionID and Scope identify the session; empty: no session is open.
	SessionID, Scope string
	// Line is Action with the commands in the line of a shell; the same as Action for other programs.
	Line *permissionv1.Action
	// Staged: the content of the file decides, once it is written.
	Staged bool
}

// Options configure a Decider. All are required except AgentEnviron, AgentPID and Note.
type Options struct {
	// Sessions are the agent's sessions.
	Sessions *session.Table
	Gate     *gate.Gate
	// AgentName is the agent's configured name.
	AgentName string
	// AgentEnviron is the environment that the agent was started with; nil: the supervisor's environment.
	AgentEnviron []string
	// AgentPID, if set, returns the agent's process.
	AgentPID func() int
	// Note, if set, records a note in the audit log.
	Note   func(text string)
	Logger *slog.Logger
}

// Decider decides for the sandboxes and the proxy of one agent. It is safe for concurrent use.
type Decider struct {
	opts Options

	// Set before bound is closed.
	sandbox *Sandbox // nil: the agent runs without a sandbox
	proxy   Proxy
	link    Link

	bindOnce sync.Once
	bound    chan struct{}
	commands kernel.Commands[line]
	turn     turnState
	configs  configs
	roots    sandboxRoots
	commits  commits
	reviews  reviews
	renames  renames

	mu      sync.Mutex
	waiting []func() // notifications of refusals before Bind; guarded by mu
	atStart []string // the first denials while no session was open, by gate.Decision.Denial; guarded by mu
}

// maxAtStart limits the denials in atStart.
const maxAtStart = 3

// maxWaiting limits the notifications that wait for Bind.
const maxWaiting = 64

// New returns a Decider without a link. Requests wait until Bind.
func New(o Options) *Decider { return &Decider{opts: o, bound: make(chan struct{})} }

// SetSandbox sets how the agent's processes are confined, if the agent runs in a sandbox. It must be called before
// Bind.
func (d *Decider) SetSandbox(s *Sandbox) { d.sandbox = s }

// SetProxy sets how the decisions for the agent's proxy are made. It must be called before Bind.
func (d *Decider) SetProxy(p Proxy) { d.proxy = p }

// Bind sets the link. Only the first call has an effect.
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

// Walls returns the walls around whatever the agent's requests and calls of terminal/create lead to; nil: there are
// none, or not all commands of terminals run in the sandbox.
func (d *Decider) Walls() []permissionv1.Wall {
	if d.sandbox == nil || !d.sandbox.Terminals {
		return nil
	}
	return d.sandbox.walls()
}

// observes reports whether the sandbox is in observe mode: nothing is refused, and actions that would be refused are
// recorded.
func (d *Decider) observes() bool { return d.sandbox != nil && d.sandbox.How.Observe }
