package host

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/display"
	"github.com/acphost/acphost/services/supervisor/internal/frame"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/route"
	"github.com/acphost/acphost/services/supervisor/internal/session"
	"google.golang.org/grpc"
)

// joint is an agent's process, joined with its front by a link.
type joint struct {
	host     *host
	identity *frame.Agent
	command  []string
	dir      string // of the process
	book     *session.Book
	process  *agent.Process
	link     *link.Link
}

// joining says what is joined.
type joining struct {
	identity *frame.Agent
	command  []string
	env      []string // the whole environment; nil: the supervisor's
	dir      string   // empty: the supervisor's
	front    link.Front
	stderr   io.Writer // nil: nobody reads the agent's
	// program: a program is at the front. It is shown no terminals: it can watch them.
	program  bool
	attended func() bool
	// unattended is how long a question waits where nobody attends.
	unattended time.Duration
}

// join starts an agent and makes its link, which does not run yet. Where the agent cannot be started, errors.As finds an
// agent.Exit.
func (h *host) join(ing joining) (*joint, error) {
	j := &joint{host: h, identity: ing.identity, command: ing.command, dir: ing.dir}
	if j.dir == "" {
		j.dir, _ = os.Getwd()
	}
	j.book = session.New(session.Options{
		Agent:      ing.identity.Name,
		ExtraRoots: extraRoots(h.config),
		Opened:     h.handlers.hold,
		Closed: func(scope string) {
			h.handlers.drop(scope)
			h.gate.EndSession(scope)
		},
		TurnEnded: h.gate.EndTurn,
	})
	cfg := h.config.GetAgent()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find acphost's own program: %w", err)
	}
	j.process, err = agent.Start(agent.Spec{
		Name:       ing.identity.Name,
		Command:    ing.command,
		Dir:        ing.dir,
		Env:        ing.env,
		User:       cfg.GetUser(),
		NoLandlock: cfg.GetNoLandlock(),
		StopGrace:  h.stopGrace(),
		Stderr:     ing.stderr,
		Guard:      []string{self, "guard"},
		Logger:     h.log,
	})
	if err != nil {
		return nil, err
	}
	desk := h.approvals.Desk(ing.identity)
	o := j.linkOptions(ing)
	o.Questions, o.Headless = desk, ing.program
	j.link = link.New(o)
	desk.Bind(j.link)
	h.joints.add(j)
	return j, nil
}

func (j *joint) linkOptions(ing joining) link.Options {
	h, cfg := j.host, j.host.config
	o := link.Options{
		Front:             ing.front,
		Agent:             agentEnd{j.process},
		Ready:             h.handlers.ready,
		Conn:              h.handlers.conn,
		Book:              j.book,
		Gate:              h.gate,
		Place:             j.place,
		RealRoots:         h.realRoots,
		Attended:          ing.attended,
		Unattended:        ing.unattended,
		CancelUnasked:     cfg.GetPermission().GetOnUnasked() == "cancel",
		Quirk:             j.quirk,
		AgentName:         ing.identity.Name,
		Observe:           h.opts.Mode == ModeObserve,
		RefuseStale:       cfg.GetWorkspace().GetStaleWrites() == "refuse",
		InitializeTimeout: time.Duration(cfg.GetAgent().GetInitializeTimeoutSeconds()) * time.Second,
		Limits: link.Limits{
			MaxMessage:   int(cfg.GetLimits().GetMaxMessageBytes()),
			MaxQueued:    int(cfg.GetLimits().GetMaxQueuedRequests()),
			MaxQueuedMem: int64(cfg.GetLimits().GetMaxQueuedBytes()),
			MaxWorkers:   int(cfg.GetLimits().GetMaxConcurrentRequests()),
		},
		Observer: h.observer(j.identity),
		Pace:     h.pace,
		Logger:   h.log,
	}
	if !ing.program {
		o.Display = func(sink display.Sink) *display.Display {
			return display.New(display.Options{
				Sink:   sink,
				Conn:   func() (grpc.ClientConnInterface, error) { return h.handlers.conn(route.KindTerminal) },
				Logger: h.log,
			})
		}
	}
	return o
}

// run joins the two until one is gone or ctx ends, and ends the agent with all that it started.
func (j *joint) run(ctx context.Context) (link.Reason, error) {
	reason, cause := j.link.Run(ctx)
	j.end(context.Background())
	return reason, cause
}

// end ends the agent with all that it started, gently until ctx ends, if it is there.
func (j *joint) end(ctx context.Context) {
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, j.host.agentStopTimeout())
	defer cancel()
	if err := j.process.Stop(ctx); err != nil {
		j.host.log.Warn("the agent could not be stopped cleanly", "agent", j.identity.Name, "error", err)
	}
	_ = j.process.Stdout().Close()
}

// knownQuirks are the workarounds that agents are known to need, by what the agent, or its program, calls itself.
//
// Gemini CLI (seen with 0.61) reads a file before it creates it and loses the error object of that read on the way, so
// that it can create a file only if the read of a missing one succeeds.
var knownQuirks = map[string][]string{
	"gemini": {link.QuirkCreateByReading},
}

// quirk tells whether a workaround is on: named by configuration, or known of the agent.
func (j *joint) quirk(name, reported string) bool {
	if configured := j.host.config.GetAgent().GetQuirks(); len(configured) > 0 {
		return slices.Contains(configured, name)
	}
	for known, quirks := range knownQuirks {
		if strings.HasPrefix(strings.ToLower(reported), known) || strings.HasPrefix(strings.ToLower(j.identity.Name), known) {
			if slices.Contains(quirks, name) {
				return true
			}
		}
	}
	return false
}
