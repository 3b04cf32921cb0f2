// Package host puts the parts together and takes them down in order: the handlers, the agent, the link between agent
// and front, and the admin socket. It is the only package that knows them all; it decides nothing that they do.
package host

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/sdk/proc"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/audit"
	"github.com/acphost/acphost/services/supervisor/internal/config"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/front"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/grant"
	"github.com/acphost/acphost/services/supervisor/internal/journal"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
	"google.golang.org/grpc"
)

// The ways that a supervisor runs.
const (
	ModeRun     = "run"
	ModeObserve = "observe"
)

// stopTimeout bounds how long the handlers may take to stop; the agent has its own grace.
const stopTimeout = 5 * time.Second

// Options say what is run, and with what.
type Options struct {
	// Command is the agent's command line. Required.
	Command []string
	// Env is the agent's whole environment; nil: the supervisor's.
	Env []string
	// Config is the configuration. Required.
	Config *config.Config
	// Mode is ModeRun or ModeObserve.
	Mode string
	// Routes are those that flags name; they override the configuration's.
	Routes map[string]string
	// Unattended: nobody is at the front to answer questions, so that they wait only so long.
	Unattended bool
	// AgentName overrides the configured name of the agent.
	AgentName string
	// Stdin and Stdout are the front's; Stderr gets the agent's standard error.
	Stdin, Stdout, Stderr *os.File
	Version               string
	// HandlerDir is the folder where acphost's own handlers stand.
	HandlerDir string
	// Admin: serve the admin socket.
	Admin  bool
	Logger *slog.Logger
}

// Run runs an agent for the front on standard input and output until one of them is gone or ctx ends, and returns the
// exit status: the agent's own, 128 and the signal's number if one ended it, 127 if its command is not there, 1 if
// something of acphost's own did not start.
func Run(ctx context.Context, o Options) int {
	h := &host{opts: o, config: o.Config.Effective(), log: o.Logger, started: time.Now()}
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
	protection protection
	pace       *proc.Pace
	handlers   *handlers
	book       *session.Book
	gate       *gate.Gate
	roots      roots
	grants     *grant.Store
	audit      *audit.Log
	journal    *journal.Journal // nil: none is kept
	agent      *agent.Process
	link       *link.Link
	admin      *admin.Server
}

// protection says which walls stand.
type protection struct {
	undumpable bool
	notes      []string
}

func (h *host) run(ctx context.Context) (status int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h.protect()
	h.pace = proc.NewPace()
	defer h.pace.Close()
	observe := h.opts.Mode == ModeObserve
	instance := newInstance()

	protected := h.opts.Config.ProtectedPaths(admin.Dir(os.Getenv))
	h.handlers = newHandlers(h.opts, h.config, instance, protected)
	if !observe {
		h.handlers.start(ctx)
		defer h.stopHandlers()
	}
	if err := h.openGate(protected); err != nil {
		return 1, err
	}
	defer h.closeGate()
	h.openJournal()
	defer h.closeJournal()
	h.book = session.New(session.Options{
		Agent:      h.agentName(),
		ExtraRoots: extraRoots(h.config),
		Opened:     h.handlers.hold,
		Closed: func(scope string) {
			h.handlers.drop(scope)
			h.gate.EndSession(scope)
		},
		TurnEnded: h.gate.EndTurn,
	})
	if h.agent, err = h.startAgent(); err != nil {
		h.log.Error("start the agent: " + err.Error())
		link.Refuse(front.NewStdio(h.opts.Stdin, h.opts.Stdout), link.Limits{}, err.Error())
		return exitOf(err), nil
	}
	h.link = link.New(h.linkOptions(observe))
	if h.opts.Admin && !h.config.GetAdmin().GetDisabled() {
		if h.admin, err = h.serveAdmin(); err != nil {
			h.log.Warn("this supervisor cannot be looked into", "error", err)
		} else {
			defer h.admin.Stop()
		}
	}
	reason, cause := h.link.Run(ctx)
	return h.finish(reason, cause)
}

// finish stops the agent and says how it all ended.
func (h *host) finish(reason link.Reason, cause error) (int, error) {
	stop, cancel := context.WithTimeout(context.Background(), h.agentStopTimeout())
	defer cancel()
	if err := h.agent.Stop(stop); err != nil {
		h.log.Warn("the agent could not be stopped cleanly", "error", err)
	}
	exit := h.agent.Exit()
	switch reason {
	case link.NotReady, link.NoInitialize:
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

func (h *host) agentStopTimeout() time.Duration {
	return 3*h.stopGrace() + stopTimeout
}

func (h *host) protect() {
	if err := proc.Undumpable(); err != nil {
		h.protection.notes = append(h.protection.notes, fmt.Sprintf("the supervisor can be traced by processes of the same user: %v", err))
		h.log.Warn("the supervisor can be traced by processes of the same user", "error", err)
		return
	}
	h.protection.undumpable = true
}

func (h *host) startAgent() (*agent.Process, error) {
	cfg := h.config.GetAgent()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find acphost's own program: %w", err)
	}
	return agent.Start(agent.Spec{
		Name:       h.agentName(),
		Command:    h.opts.Command,
		Env:        h.opts.Env,
		User:       cfg.GetUser(),
		NoLandlock: cfg.GetNoLandlock(),
		StopGrace:  h.stopGrace(),
		Stderr:     h.opts.Stderr,
		Guard:      []string{self, "guard"},
		Logger:     h.log,
	})
}

func (h *host) linkOptions(observe bool) link.Options {
	cfg := h.config
	o := link.Options{
		Front:             front.NewStdio(h.opts.Stdin, h.opts.Stdout),
		Agent:             agentEnd{h.agent},
		Ready:             h.handlers.ready,
		Conn:              h.handlers.conn,
		Book:              h.book,
		Gate:              h.gate,
		Place:             h.place,
		RealRoots:         h.realRoots,
		Attended:          func() bool { return !h.opts.Unattended },
		Unattended:        time.Duration(cfg.GetPermission().GetTimeoutSeconds()) * time.Second,
		CancelUnasked:     cfg.GetPermission().GetOnUnasked() == "cancel",
		Quirk:             h.quirk,
		AgentName:         h.agentName(),
		Observe:           observe,
		RefuseStale:       cfg.GetWorkspace().GetStaleWrites() == "refuse",
		InitializeTimeout: time.Duration(cfg.GetAgent().GetInitializeTimeoutSeconds()) * time.Second,
		Limits: link.Limits{
			MaxMessage:   int(cfg.GetLimits().GetMaxMessageBytes()),
			MaxQueued:    int(cfg.GetLimits().GetMaxQueuedRequests()),
			MaxQueuedMem: int64(cfg.GetLimits().GetMaxQueuedBytes()),
			MaxWorkers:   int(cfg.GetLimits().GetMaxConcurrentRequests()),
		},
		Observer: h.observer(),
		Pace:     h.pace,
		Logger:   h.log,
	}
	o.Display = func(sink display.Sink) *display.Display {
		return display.New(display.Options{
			Sink:   sink,
			Conn:   func() (grpc.ClientConnInterface, error) { return h.handlers.conn(route.KindTerminal) },
			Logger: h.log,
		})
	}
	return o
}

func (h *host) stopHandlers() {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	h.handlers.stop(ctx)
}

// agentName is the configured name, or the program's own.
func (h *host) agentName() string {
	if h.opts.AgentName != "" {
		return h.opts.AgentName
	}
	if name := h.config.GetAgent().GetName(); name != "" {
		return name
	}
	return filepath.Base(h.opts.Command[0])
}

// exitOf is the exit status for an agent that did not start.
func exitOf(err error) int {
	var exit agent.Exit
	if errors.As(err, &exit) {
		return exit.Status()
	}
	return 1
}

func newInstance() string {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails: see crypto/rand
	return hex.EncodeToString(raw[:])
}
