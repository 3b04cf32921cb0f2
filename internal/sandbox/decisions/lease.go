package decisions

import (
	"sync"
	"sync/atomic"
	"time"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Bounds on leases.
const (
	// leaseTime is how long a lease is used at most. What ends it sooner tells the sandbox by the generation; this is
	// for what nobody thought of.
	leaseTime = time.Second
	// maxLeases is how many a sandbox keeps.
	maxLeases = 1024
	// maxCounts is how many a supervisor counts for one sandbox at once.
	maxCounts = 4096
	// maxKeys is how many files a lease names that nobody may change.
	maxKeys = 512
)

// Lease is for which other questions an answer holds that allows a process to change a file: about other files in the
// folder, by processes that run the same program. It ends when the Generation changes, and after a second.
type Lease struct {
	// Reuse says which names are excepted, and by which files the policy decides.
	Reuse *permissionv1.Reuse
	// Keys are files that nobody may change by any name.
	Keys []FileID
	// Count counts how often the lease is used.
	Count *Count
}

// FileID tells a file from all others.
type FileID struct{ Device, Inode uint64 }

// Generation is told of everything that a decision may depend on, except files by which a policy says that it decides:
// turns, sessions and their roots, policies that come, go and are configured, files that are protected. Sandboxes read
// it in memory that they share. Safe for concurrent use. A nil Generation is one for which no leases are given.
type Generation struct {
	mu     sync.RWMutex
	memory shared
	now    *atomic.Uint64 // in memory; nil: closed
}

// Changed ends all leases. It is to be called after the change: who has decided by what was before has read the
// generation before.
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

// current is the generation; not ok: there is none.
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

// Close gives the memory back. The sandboxes that share it have to be gone.
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

// Counts are those of the leases of one sandbox, in memory that the two share. Safe for concurrent use.
type Counts struct {
	mu     sync.Mutex
	memory shared
	all    []atomic.Int64 // in memory, until ended
	ended  bool
	// free are in the order in which they were given back: the last use of one may be counted a moment later.
	free []uint32
}

// New gives a count that is 0; nil if there are none left.
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

// end is for a sandbox that is gone: what it has counted stays.
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

// Count is how often one lease was used.
type Count struct {
	of *Counts
	n  uint32
}

// Take returns the count, and gives it back. It must be called once at most.
func (n *Count) Take() uint64 {
	n.of.mu.Lock()
	defer n.of.mu.Unlock()
	n.of.free = append(n.of.free, n.n)
	return uint64(max(0, n.of.all[n.n].Swap(0)))
}
