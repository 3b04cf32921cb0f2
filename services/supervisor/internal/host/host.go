// Package host puts the parts of a supervisor together, and takes them down in order: the handlers, the gate, the records, the
// agents with their links, and the gRPC services. It is the only package that knows all of them.
//
// It decides nothing that one of the parts decides.
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
	"github.com/acphost/acphost/services/supervisor/internal/activity"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/agentspec"
	"github.com/acphost/acphost/services/supervisor/internal/approval"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/grant"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/ownhandler"
	"github.com/acphost/acphost/services/supervisor/internal/programs"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
	"github.com/acphost/acphost/services/supervisor/internal/telemetry"
	"github.com/acphost/acphost/services/supervisor/internal/usage"
)

// The ways that a supervisor runs.
const (
	ModeRun     = "run"
	ModeObserve = "observe"
	ModeServe   = "serve"
	ModePrompt  = "prompt"
	ModeChat    = "chat"
)

// stopTimeout bounds how long the handlers may take to stop; the agent has its own grace.
const stopTimeout = 5 * time.Second

// watchGrace is how long those who watch may take to be told the last events.
const watchGrace = 500 * time.Millisecond

// Options say what is run, and with what.
type Options struct {
	// Agent is the agent of Run, as agentspec.Resolver returns it. Required for Run; Start is asked for agents.
	Agent *supervisorv1.StartAgentRequest
	// Env is the environment that the variables of agents are added to; nil: the supervisor's.
	Env []string
	// Config is the configuration. Required.
	Config *config.Config
	// Listener is the socket of admin.listen where a service manager has opened it; nil: it is opened here.
	Listener net.Listener
	// Mode is ModeRun or ModeObserve; for Start one of the others, ModeServe if empty.
	Mode string
	// Routes are those that flags name; they override the configuration's.
	Routes map[string]string
	// Unattended: nobody is at the client to answer questions, so that they wait only so long.
	Unattended bool
	// Stdin and Stdout are the client's; Stderr gets the standard error of an editor's agent, and the record of decisions
	// if that is to be told there. Nil: nobody does; an editor's supervisor has all three.
	Stdin, Stdout, Stderr *os.File
	// AgentStderr, for Start, gets what agents write to their standard error, as they write it; it may wait. Nil: nobody does.
	AgentStderr io.Writer
	Version     string
	// Programs says where acphost's own handlers are.
	Programs ownhandler.Programs
	// Admin: serve the admin socket.
	Admin bool
	// Adopt: this process has no other children than those of this supervisor, which becomes the parent of what its
	// handlers and guards leave behind should they be killed, and ends it.
	Adopt bool
	// Private, for Start: only this process drives agents, so that others over TCP do not, and a socket that cannot be made
	// stops nothing.
	Private bool
	// Presets, for Start, says what is to be run for the agent of a name: its command, further environment variables, and
	// its id. Nil: no names are known.
	Presets func(ctx context.Context, name string) (command, env []string, id string, err error)
	// Dialects says how the user says that the agent of a name describes its tools; nil for one of whom nothing is said. Nil:
	// nothing is said of any.
	Dialects func(name string) *dialect.Dialect
	// Hosts says without which machines the agent of a name does not work. Nil: it is not known of any.
	Hosts func(name string) []hosts.Pattern
	// State says which files the agent of a name keeps for itself, which further programs are its own, and which it
	// starts for itself, as presets do. Nil: it is not known of any.
	State func(name string) (files, programs []string, starts [][]string)
	// Modes returns the modes in which the agent of a name asks before it acts (link.Options.Modes). Nil: they are not known of any.
	Modes func(name string) []string
	// Tested returns the versions of the agent of a name that acphost was tested with. Nil: they are not known of any.
	Tested func(name string) []string
	// TerminalTools returns the versions and the tools of the agent with the id of a preset that run commands by terminal/create
	// alone (link.Options.TerminalTools). Nil: they are not known of any.
	TerminalTools func(preset string) (versions, titles []string)
	// UnattendedFor, if set, overrides for how long a question waits where nobody is there to answer it.
	UnattendedFor time.Duration
	Logger        *slog.Logger
	// Unrecorded is told what cannot be recorded and why, besides the log: when it is opened, and while it is written. It
	// is called from any goroutine and must not wait. Nil: nobody is told.
	Unrecorded func(what Record, err error)
	// Hurry ends when what still runs is to be killed instead of being waited for: handlers, agents, and all that they started. What
	// is recorded is written all the same. Nil: it never does, and each process has its own grace.
	Hurry context.Context
	// Denied is told each action of an agent's that is denied, or that the agent did although the policy denies it, as its record,
	// whether it is recorded or not. It is called from any goroutine and must not wait. Nil: nobody is told.
	Denied func(*supervisorv1.AuditRecord)
}

// Run runs an agent for the client on standard input and output until one of them is gone or ctx ends, and returns the
// exit status: the agent's own, 128 and the signal's number if one ended it, 127 if its command is not there, 1 if
// something of acphost's own did not start.
func Run(ctx context.Context, o Options) int {
	h := newHost(o)
	status, err := h.run(ctx)
	if err != nil {
		h.log.Error(err.Error())
	}
	return status
}

// host is one running supervisor.
type host struct {
	opts       Options
	config     *configv1.Config // in effect: every default filled in
	log        *slog.Logger
	started    time.Time
	names      *link.Names
	instance   string          // tells this supervisor from all others
	hurry      context.Context // see Options.Hurry; never nil
	protection protection
	user       *proc.User // of all agents; nil: who this process runs as
	pace       *proc.Pace
	orphanage  *orphanage // nil: this process adopts nobody
	handlers   *handlers
	gate       *gate.Gate
	generation *decisions.Generation // of what decisions go by, for sandboxes; nil: none goes by it
	roots      roots
	grants     *grant.Store
	believed   map[string]*believed // by the name of a policy
	audit      *audit.Log
	journal    *journal.Journal              // nil: none is kept
	summing    chan struct{}                 // has room for one call of GetUsage
	decisions  *audit.Tally[usage.Decisions] // of the audit, once they were summed up; of that call
	hub        *activity.Hub
	telemetry  *telemetry.Telemetry // nil: nothing is measured
	measurable atomic.Bool          // all parts that measured reads are there
	approvals  *approval.Registry
	agents     linkedAgents
	admin      atomic.Pointer[admin.Server] // nil: there is none, or not yet
}

// protection says which walls stand.
type protection struct {
	undumpable bool
	notes      []string
}

func newHost(o Options) *host {
	h := &host{
		opts: o, config: o.Config.Effective(), log: o.Logger, started: time.Now(), instance: session.NewScope(), names: link.NewNames(),
		approvals: approval.New(), summing: make(chan struct{}, 1), hurry: o.Hurry,
	}
	if h.hurry == nil {
		h.hurry = context.Background()
	}
	return h
}

// open puts together what all agents have in common. Close it, even after an error.
func (h *host) open(ctx context.Context) error {
	if h.opts.Mode != ModeObserve {
		if err := h.opts.Config.CheckExposed(); err != nil {
			return err
		}
	}
	h.protect()
	if h.opts.Adopt {
		h.orphanage = openOrphanage(h.hurry, h.stopGrace(), h.log)
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
		defer h.handlers.start(ctx) // when there is somebody to tell
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
		hub.Told = h.telemetry.Told
	}
	h.hub = activity.New(hub)
	h.measurable.Store(true)
	return nil
}

// close ends all that open began.
func (h *host) close() {
	if h.handlers != nil && h.opts.Mode != ModeObserve {
		h.stopHandlers()
	}
	h.approvals.Close()
	if h.hub != nil {
		h.hub.Close()
	}
	h.closeJournal()
	h.telemetry.CloseBefore(h.hurry)
	h.closeGate()
	if h.pace != nil {
		h.pace.Close()
	}
	h.orphanage.close()
	h.generation.Close()
}

// stopServing tells those who watch what has happened up to now, and ends the services. One who does not read is not waited
// for any longer than watchGrace.
func (h *host) stopServing(server *admin.Server) {
	h.hub.Close()
	ctx, cancel := context.WithTimeout(h.hurry, watchGrace)
	defer cancel()
	h.hub.Drain(ctx)
	server.Stop()
}

// handlerChanged tells those who watch of a handler's state.
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

// outcome says how it all ended.
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

// unattended is how long a question waits where nobody is there to answer it.
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
	ctx, cancel := context.WithTimeout(h.hurry, stopTimeout)
	defer cancel()
	h.handlers.stop(ctx)
}

// agentName is the name of the agent of Run, else agent.name; empty if neither is set.
func (h *host) agentName() string {
	return cmp.Or(h.opts.Agent.GetName(), h.config.GetAgent().GetName())
}

// environ is the environment of agents, without variables of their own.
func (h *host) environ() []string {
	env := h.opts.Env
	if env == nil {
		env = os.Environ()
	}
	return h.user.Environ(env)
}

// exitOf is the exit status for an agent that did not start.
func exitOf(err error) int {
	if exit, ok := errors.AsType[agent.Exit](err); ok {
		return exit.Status()
	}
	return 1
}
