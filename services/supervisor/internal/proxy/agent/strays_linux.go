package agent

import (
	"context"
	"slices"
	"time"

	"github.com/acphost/acphost/internal/proc"
)

// endStrays ends the processes of an agent whose guard was killed: processes with the agent's mark, processes of the
// agent's session, and the descendants of both. It misses only a process without any of the three.
func endStrays(ctx context.Context, mark string, agent proc.Tree, grace time.Duration) error {
	return proc.End(ctx, func() ([]int, error) { return strays(mark, agent) }, grace)
}

func strays(mark string, agent proc.Tree) ([]int, error) {
	found, err := proc.WithEnviron(mark)
	if err != nil {
		return nil, err
	}
	if agent.Root > 0 && !replaced(agent) {
		session, err := proc.InSession(agent.Root)
		if err != nil {
			return nil, err
		}
		found = append(found, session...)
	}
	for _, pid := range slices.Clone(found) {
		below, err := proc.Descendants(pid)
		if err != nil {
			return nil, err
		}
		found = append(found, below...)
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// replaced reports whether another process has the agent's pid, so that the session with that number is not the
// agent's.
func replaced(agent proc.Tree) bool {
	now, err := proc.TreeOf(agent.Root)
	return err == nil && now.Started != agent.Started
}
