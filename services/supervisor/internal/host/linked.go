package host

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/acp/session"
	"github.com/acphost/acphost/services/supervisor/internal/handlers/route"
	"github.com/acphost/acphost/services/supervisor/internal/headless/programs"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/display"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
	"github.com/acphost/acphost/services/supervisor/internal/question"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
)

// linkedAgent is an agent's process with the link to its client. It implements programs.Process.
type linkedAgent struct {
	*agent.Process
	*link.Link
	host       *host
	identity   *frame.Agent
	command    []string
	dir        string // working directory of the process
	table      *session.Table
	decider    *containment.Decider // decides for the agent's sandbox and proxy
	sandbox    *supervisorv1.SandboxStatus
	agentProxy *agentProxy // access to other machines; nil: acphost does not provide it
	tempDir    *tempDir    // the agent's folder for temporary files; nil: the system's folder
	group      *agentGroup // the agent's control group; nil: none

	// Set if the agent's client is a program.
	cancel  context.CancelFunc              // ends the link
	stopped atomic.Pointer[context.Context] // context of the first Stop; nil: not called
	ended   chan struct{}
	reason  link.Reason // set before ended is closed, as is cause
	cause   error
}

// agentSpec describes the agent to start, and the connection of its client.
type agentSpec struct {
	programs.Spec           // Env may be nil: the supervisor's
	stderr        io.Writer // nil: the agent's standard error is discarded
	// program means that the client is a program. Messages to it contain no terminals, because it can watch terminals.
	program bool
}

// linkAgent starts an agent and creates its link, without running it. If the agent cannot be started, the error wraps
// an agent.Exit.
func (h *host) linkAgent(spec agentSpec) (*linkedAgent, error) {
	la := &linkedAgent{host: h, identity: spec.Identity, command: spec.Command, dir: spec.Dir}
	if la.dir == "" {
		la.dir, _ = os.Getwd()
	}
	la.table = session.New(session.Options{
		Agent:      spec.Identity.Name,
		ExtraRoots: extraRoots(h.config),
		Opened:     h.handlers.hold,
		Closed: func(scope string) {
			h.handlers.drop(scope)
			h.gate.EndSession(scope)
		},
		TurnEnded: h.gate.EndTurn,
		Changed:   h.generation.Changed,
	})
	la.decider = containment.New(containment.Options{
		Sessions: la.table, Gate: h.gate, AgentName: spec.Identity.Name, AgentEnviron: spec.Env, Logger: h.log,
		AgentPID: func() int { return la.PID() }, Note: la.note,
	})
	guard, err := agent.OwnGuard()
	if err != nil {
		return nil, err
	}
	if why := h.opts.Config.Unwritable(la.dir); why != "" {
		h.log.Warn(why)
	}
	walls, err := h.opts.Config.AgentConfinement()
	if err != nil {
		return nil, err
	}
	err = la.start(agent.Spec{
		Name:        spec.Identity.Name,
		Command:     spec.Command,
		Dir:         spec.Dir,
		Env:         spec.Env,
		User:        h.user,
		Confinement: walls,
		StopGrace:   h.stopGrace(),
		Stderr:      spec.stderr,
		Guard:       guard,
		Logger:      h.log,
	})
	if err != nil {
		return nil, err
	}
	questions := h.approvals.Questions(spec.Identity)
	la.Link = link.New(la.linkOptions(spec, questions))
	questions.Bind(la.Link)
	la.decider.Bind(la.Link)
	h.agents.add(la)
	return la, nil
}

func (la *linkedAgent) linkOptions(spec agentSpec, questions question.Observer) link.Options {
	h, cfg := la.host, la.host.config
	o := link.Options{
		Client:            spec.Client,
		Hurry:             h.kill,
		Agent:             agentEnd{la.Process},
		Containment:       la.decider,
		Ready:             h.handlers.ready,
		Conn:              h.handlers.conn,
		Sidecar:           h.isSidecar,
		Sessions:          la.table,
		Gate:              h.gate,
		Place:             la.place,
		CheckOpening:      la.checkOpening,
		Local:             h.local(),
		RealRoots:         h.realRoots,
		Attended:          func() bool { return !spec.program && !h.opts.Unattended || h.approvals.Attended() },
		Unattended:        h.unattended(),
		Questions:         questions,
		Program:           spec.program,
		CancelUnasked:     cfg.GetPermission().GetOnUnasked() == "cancel",
		Quirk:             la.quirk,
		Names:             h.names,
		AgentName:         spec.Identity.Name,
		AgentEnviron:      spec.Env,
		Observe:           h.opts.Mode == ModeObserve,
		RefuseStale:       cfg.GetWorkspace().GetStaleWrites() == "refuse",
		InitializeTimeout: time.Duration(cfg.GetAgent().GetInitializeTimeoutSeconds()) * time.Second,
		Limits: link.Limits{
			MaxMessage:   int(cfg.GetLimits().GetMaxMessageBytes()),
			MaxQueued:    int(cfg.GetLimits().GetMaxQueuedRequests()),
			MaxQueuedMem: int64(cfg.GetLimits().GetMaxQueuedBytes()),
			MaxWorkers:   int(cfg.GetLimits().GetMaxConcurrentRequests()),
		},
		Observer: h.hub.Observer(la.identity),
		Pace:     h.pace,
		Logger:   h.log,
	}
	if h.telemetry != nil {
		o.Called = h.telemetry.Called
		o.Tracer, o.TraceActions = h.telemetry.Tracer(), cfg.GetTelemetry().GetOtlp().GetTraces().GetActions()
	}
	if h.opts.Dialects != nil {
		o.Dialect = h.opts.Dialects(spec.Identity.Name)
	}
	if h.opts.Modes != nil {
		o.Modes = h.opts.Modes(spec.Identity.Name)
	}
	if h.opts.Tested != nil {
		o.Tested = h.opts.Tested(spec.Identity.Name)
	}
	if h.opts.TerminalTools != nil && spec.Preset != "" {
		if versions, titles := h.opts.TerminalTools(spec.Preset); len(titles) > 0 {
			o.TerminalTools = &link.TerminalTools{Versions: versions, Titles: titles}
		}
	}
	if !spec.program {
		o.Display = func(sink display.Sink) *display.Display {
			return display.New(display.Options{
				Sink: sink,
				Conn: func(sessionID string) (grpc.ClientConnInterface, error) {
					return h.handlers.connAt(route.KindTerminal, la.table.Home(sessionID))
				},
				Logger: h.log,
			})
		}
	}
	return o
}

// run runs the link until the agent or the client ends or ctx ends, and ends the agent with all processes that it
// started.
func (la *linkedAgent) run(ctx context.Context) (link.Reason, error) {
	reason, cause := la.Link.Run(ctx)
	la.end(context.Background())
	return reason, cause
}

// end ends the agent with all processes that it started, gracefully until ctx or host.kill ends.
func (la *linkedAgent) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 3*la.host.stopGrace()+stopTimeout)
	defer cancel()
	defer context.AfterFunc(la.host.kill, cancel)()
	if err := la.Process.Stop(ctx); err != nil {
		la.host.log.Warn("the agent could not be stopped cleanly", "agent", la.identity.Name, "error", err)
	}
	_ = la.Stdout().Close()
	la.agentProxy.wait(ctx)
	la.tempDir.wait(ctx)
}

// knownQuirks lists the workarounds that agents need, by the name that the agent or its program reports.
//
// Gemini CLI (observed with version 0.61) reads a file before it creates it, and loses the error object of that read,
// so that it can create a file only if the read of a missing one succeeds.
var knownQuirks = map[string][]string{
	"gemini": {link.QuirkCreateByReading},
}

// quirk reports whether a workaround is enabled: by configuration, or because the agent is known to need it.
func (la *linkedAgent) quirk(name, reported string) bool {
	if configured := la.host.config.GetAgent().GetQuirks(); len(configured) > 0 {
		return slices.Contains(configured, name)
	}
	for known, quirks := range knownQuirks {
		named := func(agent string) bool { return strings.HasPrefix(strings.ToLower(agent), known) }
		if (named(reported) || named(la.identity.Name)) && slices.Contains(quirks, name) {
			return true
		}
	}
	return false
}
