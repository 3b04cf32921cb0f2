package host

import (
	"context"
	"io"
	"time"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/services/supervisor/internal/agent"
	"github.com/acphost/acphost/services/supervisor/internal/config"
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

const (
	defaultStopGrace         = 2 * time.Second
	defaultInitializeTimeout = time.Minute
)

func stopGrace(c *config.Config) time.Duration {
	if ms := c.Proto.GetAgent().GetStopGraceMs(); ms > 0 {
		return time.Duration(ms) * time.Millisecond
	}
	return defaultStopGrace
}

func initializeTimeout(c *config.Config) time.Duration {
	if s := c.Proto.GetAgent().GetInitializeTimeoutSeconds(); s > 0 {
		return time.Duration(s) * time.Second
	}
	return defaultInitializeTimeout
}

func extraRoots(c *config.Config) []*acpv1.Root {
	var roots []*acpv1.Root
	for _, r := range c.Proto.GetWorkspace().GetExtraRoots() {
		roots = append(roots, &acpv1.Root{Path: r.GetPath(), ReadOnly: r.GetReadOnly()})
	}
	return roots
}
