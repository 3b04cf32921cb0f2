// Package kernel keeps what is known of an agent's processes that run in a sandbox: which of them belong to a command that was
// allowed; and which files and programs are the agent's own.
//
// It reads /proc and the file system, and decides nothing. It must not know ACP, sessions or policies.
package kernel

import (
	"maps"
	"sync"
)

// Bounds on what is kept.
const (
	maxProcesses = 8192
	maxExpected  = 1024
)

// Commands are the processes of commands that were allowed, with all that these have started. The zero value is ready. It is
// safe for concurrent use.
type Commands struct {
	mu     sync.Mutex
	seen   map[int]known  // by pid
	expect map[uint64]int // the process that is to become a command's, by the call that was allowed
}

// known is what is known of a process.
type known struct {
	start  uint64 // when it started, in clock ticks since the machine did
	within bool   // it belongs to a command. If not, nor did anything above it when it was looked at
}

// Expect notes that a process becomes that of a command if a call of it succeeds. Until then it is what it was: the kernel may
// refuse the program, and the process goes on.
func (c *Commands) Expect(pid int, call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expect == nil || len(c.expect) >= maxExpected {
		c.expect = map[uint64]int{}
	}
	c.expect[call] = pid
}

// Started takes a process for that of a command if its call was expected to make it one. The process must not run meanwhile, so
// that its number is its own.
func (c *Commands) Started(pid int, call uint64) {
	c.mu.Lock()
	expected, ok := c.expect[call]
	delete(c.expect, call)
	c.mu.Unlock()
	if ok && expected == pid {
		c.Add(pid)
	}
}

// Add takes a process for that of a command. The process must not run meanwhile.
func (c *Commands) Add(pid int) {
	if p, ok := look(pid); ok {
		c.add(p, true)
	}
}

// process names a process for ever.
type process struct {
	pid   int
	start uint64 // when it started, in clock ticks since the machine did
}

func (c *Commands) add(p process, within bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[int]known{}
	}
	if k, ok := c.seen[p.pid]; ok && k.start == p.start && k.within {
		return
	}
	if len(c.seen) >= maxProcesses {
		maps.DeleteFunc(c.seen, func(_ int, k known) bool { return !k.within }) // which can be found out again
	}
	if len(c.seen) >= maxProcesses {
		maps.DeleteFunc(c.seen, func(pid int, k known) bool {
			now, ok := look(pid)
			return !ok || now.start != k.start
		})
	}
	if len(c.seen) < maxProcesses {
		c.seen[p.pid] = known{p.start, within}
	}
}

// of is what is known of a process.
func (c *Commands) of(p process) (within, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[p.pid]
	return k.within, ok && k.start == p.start
}

// Within reports whether a process is that of a command, or was started by one. A process whose parent has ended before
// the process did anything is not known any more, and is not within. Nor is one that was asked about before anything
// above it was a command's.
func (c *Commands) Within(pid int) bool {
	var path []process
	within := false
	if !above(pid, func(p process) (enough bool) {
		if len(path) > 0 && path[0].pid == p.pid {
			path = path[:0] // the walk began anew
		}
		path = append(path, p)
		within, enough = c.of(p)
		return enough
	}) || len(path) == 0 {
		return false
	}
	// Most of an agent's processes have the same few above them: to walk up to the first process each time takes as
	// long as all else.
	c.add(path[0], within)
	if !within {
		for _, p := range path[1:] {
			c.add(p, false)
		}
	}
	return within
}
