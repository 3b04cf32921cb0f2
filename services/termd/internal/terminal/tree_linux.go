package terminal

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/procsnapshot"
)

// tree finds all processes that a command has started: those in its session, those with its mark, those of either kind
// found before, and all their descendants. A process leaves the first group by setsid, the second by a clean
// environment and the last by being orphaned. A process that has done all three before a search is not found here; see
// Terminals.endEscaped.
type tree struct {
	pid    int
	mark   string
	sharer *procsnapshot.Sharer

	mu      sync.Mutex
	known   map[int]uint64 // start times by pid
	retired bool
}

func (s *Terminals) newTree(pid int, mark string) *tree {
	return &tree{pid: pid, mark: mark, sharer: s.snapshots, known: map[int]uint64{}}
}

// snapshots are shared by all trees.
type snapshots = *procsnapshot.Sharer

func newSnapshots() snapshots { return &procsnapshot.Sharer{Prefix: command.Mark} }

// end ends all processes: SIGTERM, and SIGKILL after the grace.
func (t *tree) end(ctx context.Context, grace time.Duration) error {
	return proc.End(ctx, t.list, grace)
}

// retire records that the command's pid is released and may be reused. The tree lists no processes afterwards.
func (t *tree) retire() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.retired = true
}

func (t *tree) isRetired() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.retired
}

func (t *tree) list() ([]int, error) {
	now, err := t.sharer.Take()
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.retired {
		return nil, nil
	}
	roots := append([]int{t.pid}, now.Session(t.pid)...)
	roots = append(roots, now.Marked(t.mark)...)
	for pid, start := range t.known {
		if p, ok := now.Processes[pid]; ok && p.Start == start {
			roots = append(roots, pid)
		} else {
			delete(t.known, pid)
		}
	}
	found := now.Descendants(roots...)
	for _, pid := range found {
		t.known[pid] = now.Processes[pid].Start
	}
	slices.Sort(found)
	return found, nil
}
