//go:build !linux

package agent

import (
	"context"
	"time"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/services/supervisor/guard"
)

// endStrays ends the process group of an agent whose guard was killed.
func endStrays(ctx context.Context, _ string, agent proc.Tree, grace time.Duration) error {
	return guard.EndGroup(ctx, agent.Root, grace)
}
