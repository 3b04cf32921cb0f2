package host

import (
	"cmp"
	"context"
	"sync"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/link"
	"github.com/acphost/acphost/services/supervisor/internal/programs"
)

// startProgram starts an agent whose client is a program. life is its link's: it ends when the supervisor is closed.
func (h *host) startProgram(ctx, life context.Context, spec programs.Spec) (programs.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	la, err := h.linkAgent(agentSpec{Spec: spec, stderr: h.opts.AgentStderr, program: true})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(life)
	r := &running{linkedAgent: la, cancel: cancel, ended: make(chan struct{})}
	go r.run(ctx)
	return r, nil
}

// running is a linkedAgent whose link runs.
type running struct {
	*linkedAgent
	cancel context.CancelFunc
	ended  chan struct{}
	reason link.Reason // set before ended is closed, as is cause
	cause  error

	mu      sync.Mutex
	stopCtx context.Context // of the first Stop; nil: none
}

func (r *running) run(ctx context.Context) {
	defer close(r.ended)
	defer r.cancel()
	r.reason, r.cause = r.linkedAgent.link.Run(ctx)
	r.mu.Lock()
	stop := r.stopCtx
	r.mu.Unlock()
	r.linkedAgent.end(stop)
	r.host.agents.remove(r.linkedAgent)
}

// PID implements programs.Process, as do the methods that follow.
func (r *running) PID() int { return r.process.PID() }

// StderrTail are the agent's last words.
func (r *running) StderrTail() []string { return r.process.StderrTail() }

// Ended is closed when link and process are over.
func (r *running) Ended() <-chan struct{} { return r.ended }

// Exit says how the process ended.
func (r *running) Exit() agent.Exit { return r.process.Exit() }

// Reason says why the link ended.
func (r *running) Reason() (link.Reason, error) {
	<-r.ended
	return r.reason, r.cause
}

// Sessions are what the path knows of them.
func (r *running) Sessions() []*supervisorv1.Session { return r.sessions() }

// Forget drops a session that the agent cannot close: its scope ends, its terminals with it, and what it asked.
func (r *running) Forget(sessionID string) { r.link.Forget(sessionID) }

// Stop ends the link, and then the process with all that it started: gently until ctx ends.
func (r *running) Stop(ctx context.Context) error {
	r.mu.Lock()
	r.stopCtx = cmp.Or(r.stopCtx, ctx)
	r.mu.Unlock()
	r.cancel()
	<-r.ended // bounded: see agent.Process.Stop
	return nil
}
