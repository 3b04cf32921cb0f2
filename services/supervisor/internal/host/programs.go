package host

import (
	"context"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/services/supervisor/internal/headless/programs"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/link"
)

// startProgram starts an agent whose client is a program. life is the context of its link, which ends when the
// supervisor is closed.
func (h *host) startProgram(ctx, life context.Context, spec programs.Spec) (programs.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	la, err := h.linkAgent(agentSpec{Spec: spec, stderr: h.opts.AgentStderr, program: !spec.Remote})
	if err != nil {
		return nil, err
	}
	ctx, la.cancel = context.WithCancel(life)
	la.ended = make(chan struct{})
	go la.runProgram(ctx)
	return la, nil
}

// runProgram runs the link until it ends, and ends the agent.
func (la *linkedAgent) runProgram(ctx context.Context) {
	defer close(la.ended)
	defer la.host.agents.remove(la)
	defer la.cancel()
	if err := panics.Catch(la.host.log, "serving agent "+la.identity.ID, func() error {
		la.reason, la.cause = la.Link.Run(ctx)
		return nil
	}); err != nil {
		la.reason, la.cause = link.Broken, err
	}
	stop := context.WithoutCancel(ctx)
	if first := la.stopped.Load(); first != nil {
		stop = *first
	}
	defer panics.Recover(la.host.log, "ending agent "+la.identity.ID)
	la.end(stop)
}

// Ended implements programs.Process: the channel is closed when link and process have ended.
func (la *linkedAgent) Ended() <-chan struct{} { return la.ended }

// Reason implements programs.Process: it returns why the link ended.
func (la *linkedAgent) Reason() (link.Reason, error) {
	<-la.ended
	return la.reason, la.cause
}

// Stop implements programs.Process: it ends the link, then the agent with all processes that it started, gracefully
// until ctx ends.
func (la *linkedAgent) Stop(ctx context.Context) error {
	la.stopped.CompareAndSwap(nil, &ctx)
	la.cancel()
	<-la.ended // returns in limited time: see agent.Process.Stop
	return nil
}
