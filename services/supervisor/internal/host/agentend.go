package host

import (
	"context"
	"io"
	"time"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
)

// agentEnd is an agent's process as the link sees it.
type agentEnd struct{ *agent.Process }

// Stdin takes messages for the agent.
func (a agentEnd) Stdin() io.WriteCloser { return a.Process.Stdin() }

// Stdout gives the agent's messages.
func (a agentEnd) Stdout() io.Reader { return a.Process.Stdout() }

// Ended tells how the agent ended, or that it only closed its output.
func (a agentEnd) Ended(ctx context.Context) string {
	select {
	case <-a.Done():
		return a.Exit().String()
	case <-ctx.Done():
		return "it closed its standard output, though it still runs"
	}
}

// stopGrace is how long the agent has after its input is closed, and again after TERM.
func (h *host) stopGrace() time.Duration {
	return time.Duration(h.config.GetAgent().GetStopGraceMs()) * time.Millisecond
}

func extraRoots(c *configv1.Config) []*acpv1.Root {
	var roots []*acpv1.Root
	for _, r := range c.GetWorkspace().GetExtraRoots() {
		roots = append(roots, &acpv1.Root{Path: r.GetPath(), ReadOnly: r.GetReadOnly()})
	}
	return roots
}
