package decisions

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/acphost/acphost/internal/sandbox"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Limits of leases.
const (
	// leaseTime is the maximum age of a lease. A change of the generation ends it sooner; this limit covers causes that do not change
	// the generation.
	leaseTime = time.Second
	// maxLeases limits the leases of a sandbox.
	maxLeases = 1024
	// maxCounts limits the counts of a supervisor for one sandbox.
	maxCounts = 4096
	// maxKeys limits the files that a lease excludes from changes.
	maxKeys = 512
	// maxAsked limits the patterns of a ReadLease.
	maxAsked = 2000
)

// Lease extends an answer that allows a process to change a file to other questions: about other files in the folder, by processes
// that run the same program. It ends when the Generation changes, and after a second.
type Lease struct {
	// Reuse says which names are excepted, and which files the policy depends on.
	Reuse *permissionv1.Reuse
	// Keys are files that may not be changed by any name.
	Keys []FileID
	// Count counts the uses of the lease.
	Count *Count
}

// ReadLease extends an answer that allows a read to all reads of the sandbox's processes except those of some files. It ends after a second,
// so a new rule counts after a second at most.
type ReadLease struct {
	// Asked are the patterns of the excepted files (pathglob.Set).
	Asked []string
	// Keys are excepted by any name.
	Keys []FileID
}

// FileID identifies a file.
type FileID = sandbox.FileID

// Generation is the version of everything that a decision may depend on, except the files that a policy names as its inputs: turns,
// sessions and their roots, policies that are added, removed and configured, files that are protected. Sandboxes read it in shared
// memory. Safe for concurrent use. For a nil Generation no leases are granted.
type Generation struct {
	mu     sync.RWMutex
	memory shared
	now    *atomic.Uint64 // points into memory; nil: closed
}

// Changed ends all leases. Call it after the change: a decision based on the previous state has read the previous generation.
func (g *Generation) Changed() {
	if g == nil {
		return
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.now != nil {
		g.now.Add(1)
	}
}

// current returns the generation. ok is false if it is nil or closed.
func (g *Generation) current() (n uint64, ok bool) {
	if g == nil {
		return 0, false
	}
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.now == nil {
		return 0, false
	}
	return g.now.Load(), true
}

// Close releases the memory. The sandboxes that share it must have ended.
func (g *Generation) Close() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.now != nil {
		g.now = nil
		g.memory.close()
	}
}

// Counts are the counts of one sandbox's leases, in memory that it shares with the supervisor. Safe for concurrent use.
type Counts struct {
	mu     sync.Mutex
	memory shared
	all    []atomic.Int64 // points into memory until ended
	ended  bool
	// free are the unused counts, in the order of their release: the last use of a lease may be counted a moment later.
	free []uint32
}

// New returns a count of 0; nil if none is free.
func (c *Counts) New() *Count {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.free) == 0 || c.ended {
		return nil
	}
	n := c.free[0]
	c.free = c.free[1:]
	c.all[n].Store(0)
	return &Count{c, n}
}

// end detaches the counts from a sandbox that has ended. They keep their values.
func (c *Counts) end() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	last := make([]atomic.Int64, len(c.all))
	for i := range last {
		last[i].Store(c.all[i].Load())
	}
	c.all, c.ended = last, true
	c.memory.close()
}

// Count is the number of uses of one lease.
type Count struct {
	of *Counts
	n  uint32
}

// Take returns the count, and releases it. It must be called at most once.
func (n *Count) Take() uint64 {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.free = append(n.of.free, n.n)
	return uint64(max(0, n.of.all[n.n].Swap(0)))
}
