// Package kernel records facts about an agent's processes that run in a sandbox: which of them belong to an allowed command, and which
// files and programs belong to the agent.
//
// The package reads /proc and the file system, and decides nothing. It must not know ACP, sessions or policies.
package kernel

import (
	"maps"
	"sync"
)

// Limits on the recorded processes.
const (
	maxProcesses = 8192
	maxExpected  = 1024
)

// Commands records the processes of allowed commands and their descendants. The zero value is ready for use. It is safe for concurrent use.
type Commands struct {
	mu     sync.Mutex
	seen   map[int]known  // by pid
	expect map[uint64]int // pids of processes that become part of a command, by the allowed call
}

// known is the recorded state of a process.
type known struct {
	start  uint64 // start time, in clock ticks since boot
	within bool   // it belongs to a command; if false, its ancestors did not either when they were checked
}

// Expect notes that a process becomes part of a command if one of its calls succeeds. Until then its state is unchanged, because the kernel
// may reject the program and the process continues.
func (c *Commands) Expect(pid int, call uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expect == nil || len(c.expect) >= maxExpected {
		c.expect = map[uint64]int{}
	}
	c.expect[call] = pid
}

// Started adds a process to a command if Expect was called for the same call. The process must be stopped meanwhile, so that its pid cannot
// be reused.
func (c *Commands) Started(pid int, call uint64) {
	c.mu.Lock()
	expected, ok := c.expect[call]
	delete(c.expect, call)
	c.mu.Unlock()
	if ok && expected == pid {
		c.Add(pid)
	}
}

// Add adds a process to a command. The process must be stopped meanwhile.
func (c *Commands) Add(pid int) {
	if p, ok := look(pid); ok {
		c.add(p, true)
	}
}

// process identifies a process uniquely, even if its pid is reused.
type process struct {
	pid   int
	start uint64 // start time, in clock ticks since boot
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
		maps.DeleteFunc(c.seen, func(_ int, k known) bool { return !k.within }) // these can be determined again
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

// of returns the recorded state of a process.
func (c *Commands) of(p process) (within, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[p.pid]
	return k.within, ok && k.start == p.start
}

// Within reports whether a process belongs to a command, or was started by one. If the parent ended before the process did anything, the
// process is unknown, and not within. A process that was checked before any of its ancestors belonged to a command is not within either.
func (c *Commands) Within(pid int) bool {
	var path []process
	within := false
	if !above(pid, func(p process) (enough bool) {
		if len(path) > 0 && path[0].pid == p.pid {
			path = path[:0] // the walk was restarted
		}
		path = append(path, p)
		within, enough = c.of(p)
		return enough
	}) || len(path) == 0 {
		return false
	}
	// Most processes of an agent have the same few ancestors. Walking up to the first process each time takes as long as everything else.
	c.add(path[0], within)
	if !within {
		for _, p := range path[1:] {
			c.add(p, false)
		}
	}
	return within
}
