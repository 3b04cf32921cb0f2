// Package host assembles the parts of a supervisor, and stops them in order: the handlers, the gate, the records, the
// agents with their links, and the gRPC services. It is the only package that knows all of them.
//
// It makes no decision that belongs to one of the parts.
package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/config/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/telemetry"
	"github.com/acphost/acphost/services/supervisor/internal/events/usage"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/headless/programs"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/grant"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
	"github.com/acphost/acphost/services/supervisor/internal/question/approval"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// The modes of a supervisor.
const (
	ModeRun     = "run"
	ModeObserve = "observe"
	ModeServe   = "serve"
	ModePrompt  = "prompt"
	ModeChat    = "chat"
)

// stopTimeout limits the stop of the handlers. The agent has its own grace.
const stopTimeout = 5 * time.Second

// watchGrace limits the time for sending the last events to watchers.
const watchGrace = 500 * time.Millisecond

// Options configure a supervisor.
type Options struct {
	// Agent is the agent of Run, as agentspec.Resolver returns it. Required for Run. Start gets its agents by requests.
	Agent *supervisorv1.StartAgentRequest
	// Env is the environment of agents, to which their own variables are added. Nil means the supervisor's.
	Env []string
	// Config is the configuration. Required.
	Config *config.Config
	// Listener is the listener of admin.listen if a service manager has opened it. If it is nil, the supervisor opens
	// the listener.
	Listener net.Listener
	// Mode is ModeRun or ModeObserve for Run, and one of the other modes for Start. Empty means ModeServe for Start.
	Mode string
	// Routes are the routes from flags. They override the configuration's.
	Routes map[string]string
	// Unattended means that no user answers questions at the client, so that questions wait for a limited time only.
	Unattended bool
	// Stdin and Stdout are connected to the client. Stderr receives the standard error of an editor's agent, and the
	// record of decisions if that is written there. Nil means none. A supervisor for an editor has all three.
	Stdin, Stdout, Stderr *os.File
	// AgentStderr, for Start, receives the standard error of agents as they write it. It may block. Nil discards it.
	AgentStderr io.Writer
	Version     string
	// Programs locates acphost's own handlers.
	Programs ownhandler.Programs
	// Admin enables the admin socket.
	Admin bool
	// Adopt means that all children of this process belong to this supervisor. The supervisor then becomes the parent
	// of processes that killed handlers and guards leave behind, and ends them.
	Adopt bool
	// Private, for Start, means that only this process uses agents: calls over TCP cannot, and a failure to create the
	// admin socket is not an error.
	Private bool
	// Presets, for Start, returns how to run the agent with a name: its command, additional environment variables, and
	// its id. Nil means that no names are known.
	Presets func(ctx context.Context, name string) (command, env []string, id string, err error)
	// Dialects returns the configured dialect of the agent with a name, or nil. A nil Dialects means that none is
	// configured.
	Dialects func(name string) *dialect.Dialect
	// Machines returns the machines that the agent of a name is known to connect to. Nil: unknown for all agents.
	Machines func(name string) hosts.Known
	// Files returns the files and programs that the agent of a name is known to have. Nil: unknown for all agents.
	Files func(name string) kernel.Files
	// Modes returns the modes in which the agent of a name asks before it acts (link.Options.Modes). Nil: unknown for all agents.
	Modes func(name string) []string
	// Tested returns the versions of the agent with a name that acphost was tested with. Nil means unknown for all
	// agents.
	Tested func(name string) []string
	// TerminalTools returns, for an agent by the id of its preset, the versions and the tools that run commands only by
	// terminal/create (link.Options.TerminalTools). Nil means unknown for all agents.
	TerminalTools func(preset string) (versions, titles []string)
	// UnattendedFor, if set, overrides how long a question waits if no user can answer it.
	UnattendedFor time.Duration
	Logger        *slog.Logger
	// Unrecorded is called, in addition to the log, if a record cannot be opened or written. err is the reason. It is
	// called from any goroutine and must not block. Nil is not called.
	Unrecorded func(what Record, err error)
	// Kill ends when running handlers, agents and all their processes are to be killed instead of waited for. Records
	// are still written. With nil, each process has its own grace.
	Kill context.Context
	// Denied is called with the record of each action of an agent that is denied, or that the agent did although the
	// policy denies it, even if decisions are not recorded. It is called from any goroutine and must not block. Nil is
	// not called.
	Denied func(*supervisorv1.AuditRecord)
}

// Run runs an agent for the client on standard input and output until the agent or the client ends or ctx ends. It
// returns the exit status: the agent's own, 128 plus the signal's number if a signal ended it, 127 if its command does
// not exist, 1 if a part of acphost did not start.
func Run(ctx context.Context, o Options) int {
	h := newHost(o)
	status, err := h.run(ctx)
	if err != nil {
		h.log.Error(err.Error())
	}
	return status
}

// host is a running supervisor.
type host struct {
	opts         Options
	config       *configv1.Config // the effective configuration: every default filled in
	log          *slog.Logger
	started      time.Time
	names        *link.Names
	instance     string          // unique id of this supervisor
	kill         context.Context // see Options.Kill; never nil
	protection   protection
	user         *proc.User // user of all agents; nil: the user of this process
	pace         *proc.Pace
	orphanReaper *orphanReaper // nil: this process adopts no orphans
	handlers     *handlers
	gate         *gate.Gate
	generation   *decisions.Generation // changes when the inputs of decisions change, for sandboxes; nil: no sandbox caches decisions
	roots        roots
	grants       *grant.Store
	policyFiles  map[string]*policyFiles // by the name of a policy
	audit        *audit.Log
	journal      *journal.Journal              // nil: no record is kept
	summing      chan struct{}                 // semaphore: one call of GetUsage at a time
	decisions    *audit.Tally[usage.Decisions] // sums of the audit, once computed; for the GetUsage that holds summing
	hub          *activity.Hub
	telemetry    *telemetry.Telemetry // nil: no telemetry
	measurable   atomic.Bool          // all parts that measured reads exist
	approvals    *approval.Registry
	agents       linkedAgents
	admin        atomic.Pointer[admin.Server] // nil: none, or not yet
}

// protection describes the active protections.
type protection struct {
	undumpable bool
	notes      []string
}

func newHost(o Options) *host {
	h := &host{
		opts: o, config: o.Config.Effective(), log: o.Logger, started: time.Now(), instance: session.NewScope(), names: link.NewNames(),
		approvals: approval.New(), summing: make(chan struct{}, 1), kill: o.Kill,
	}
	if h.kill == nil {
		h.kill = context.Background()
	}
	return h
}

// open starts the parts that all agents share. The caller calls close, even after an error.
func (h *host) open(ctx context.Context) error {
	if h.opts.Mode != ModeObserve {
		if err := h.opts.Config.CheckExposed(); err != nil {
			return err
		}
	}
	h.protect()
	if h.opts.Adopt {
		h.orphanReaper = openOrphanReaper(h.kill, h.stopGrace(), h.log)
	}
	h.pace = proc.NewPace()
	protected := h.opts.Config.ProtectedPaths(rundir.Dir(os.Getenv))
	if err := h.findUser(); err != nil {
		return err
	}
	var err error
	if h.opts.Config.Sandbox() != config.SandboxOff {
		if h.generation, err = decisions.NewGeneration(); err != nil {
			h.log.Warn("the sandbox asks about each change of a file: memory that it would share cannot be had", "error", err)
		}
	}
	if h.handlers, err = newHandlers(h.opts, h.config, h.user, h.instance, protected, h.handlerChanged, h.generation.Changed); err != nil {
		return err
	}
	for _, note := range h.userNotes() {
		h.protection.notes = append(h.protection.notes, note)
		h.log.Warn(note)
	}
	if h.opts.Mode != ModeObserve {
		defer h.handlers.start(ctx) // once handlerChanged can publish events
	}
	if err := h.openTelemetry(); err != nil {
		return err
	}
	if err := h.openGate(protected); err != nil {
		return err
	}
	h.openJournal()
	hub := activity.Options{Instance: h.instance, Journal: h.journal, SecretVariables: deniedVariables(h.config, h.answering(route.KindTerminal)), Logger: h.log,
		TurnGrace: time.Duration(h.config.GetLimits().GetTurnGraceMs()) * time.Millisecond}
	if h.telemetry != nil {
		hub.OnEvent = h.telemetry.Event
	}
	h.hub = activity.New(hub)
	h.measurable.Store(true)
	return nil
}

// close stops the parts that open started.
func (h *host) close() {
	if h.handlers != nil && h.opts.Mode != ModeObserve {
		h.stopHandlers()
	}
	h.approvals.Close()
	if h.hub != nil {
		h.hub.Close()
	}
	h.closeJournal()
	h.telemetry.CloseBefore(h.kill)
	h.closeGate()
	if h.pace != nil {
		h.pace.Close()
	}
	h.orphanReaper.close()
	h.generation.Close()
}

// stopServing sends pending events to watchers, and stops the services. It waits at most watchGrace for a slow watcher.
func (h *host) stopServing(server *admin.Server) {
	h.hub.Close()
	ctx, cancel := context.WithTimeout(h.kill, watchGrace)
	defer cancel()
	h.hub.Drain(ctx)
	server.Stop()
}

// handlerChanged publishes a change of a handler's state.
func (h *host) handlerChanged(st *supervisorv1.HandlerStatus) {
	if h.hub == nil {
		return
	}
	st = shown(st)
	state := strings.ToLower(strings.TrimPrefix(st.GetState().String(), "HANDLER_STATE_"))
	h.hub.Publish(&supervisorv1.Event{Event: &supervisorv1.Event_Handler{Handler: &supervisorv1.HandlerChanged{
		Name: st.GetName(), State: state, Error: st.GetError(), Restarts: st.GetRestarts(), Folders: h.handlers.foldersOf(st.GetName()),
	}}})
}

func (h *host) run(ctx context.Context) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer h.close()
	client := link.Client{In: h.opts.Stdin, Out: h.opts.Stdout}
	if err := h.open(ctx); err != nil {
		link.Refuse(client, err.Error())
		return 1, err
	}
	env, err := agentspec.Environ(h.environ(), h.opts.Agent.GetEnv())
	if err != nil {
		err = fmt.Errorf("start the agent: %w", err)
		link.Refuse(client, err.Error())
		return 1, err
	}
	identity := &frame.Agent{ID: agentspec.PlainName(h.agentName()) + "-1", Name: h.agentName()}
	defer h.serveActivity(identity.ID, nil)() // before the agent can write to standard error
	la, err := h.linkAgent(agentSpec{stderr: h.opts.Stderr, Spec: programs.Spec{
		Identity: identity, Preset: h.opts.Agent.GetPreset(), Command: h.opts.Agent.GetCommand(), Env: env, Client: client,
	}})
	if err != nil {
		h.log.Error("start the agent: " + err.Error())
		link.Refuse(client, err.Error())
		return exitOf(err), nil
	}
	if h.opts.Admin && !h.config.GetAdmin().GetDisabled() {
		o := h.adminOptions()
		o.Agents, o.ReadOnly = editorsAgent{host: h}, editorsOwn
		if server, err := admin.Start(o); err != nil {
			h.log.Warn("this supervisor cannot be looked into", "error", err)
		} else {
			h.admin.Store(server)
			defer h.stopServing(server)
		}
	}
	reason, cause := la.run(ctx)
	return outcome(la.Exit(), reason, cause)
}

// outcome returns the exit status and the error of a run.
func outcome(exit agent.Exit, reason link.Reason, cause error) (int, error) {
	switch reason {
	case link.NotReady, link.NoInitialize, link.Broken:
		return 1, cause
	case link.AgentGone:
		if exit.Status() != 0 {
			return exit.Status(), fmt.Errorf("the agent is gone: %w", exit)
		}
		if cause != nil {
			return 1, cause
		}
	}
	return exit.Status(), nil
}

// unattended returns how long a question waits if no user can answer it.
func (h *host) unattended() time.Duration {
	if h.opts.UnattendedFor > 0 {
		return h.opts.UnattendedFor
	}
	return time.Duration(h.config.GetPermission().GetTimeoutSeconds()) * time.Second
}

func (h *host) protect() {
	if err := proc.Undumpable(); err != nil {
		h.protection.notes = append(h.protection.notes, "the supervisor can be traced by processes of the same user: "+err.Error())
		h.log.Warn("the supervisor can be traced by processes of the same user", "error", err)
		return
	}
	h.protection.undumpable = true
}

func (h *host) stopHandlers() {
	ctx, cancel := context.WithTimeout(h.kill, stopTimeout)
	defer cancel()
	h.handlers.stop(ctx)
}

// agentName returns the name of the agent of Run, else agent.name, else "".
func (h *host) agentName() string {
	return cmp.Or(h.opts.Agent.GetName(), h.config.GetAgent().GetName())
}

// environ returns the environment of agents, without the variables of single agents.
func (h *host) environ() []string {
	env := h.opts.Env
	if env == nil {
		env = os.Environ()
	}
	return h.user.Environ(env)
}

// exitOf returns the exit status for an agent that did not start.
func exitOf(err error) int {
	if exit, ok := errors.AsType[agent.Exit](err); ok {
		return exit.Status()
	}
	return 1
}
