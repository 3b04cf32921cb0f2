// Package kernel records facts about an agent's processes that run in a sandbox: which of them belong to an allowed command, and which
// files belong to the agent.
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

// Commands records the processes of allowed commands and their descendants, with a description of the command. The zero
// value is ready for use. It is safe for concurrent use.
type Commands[T any] struct {
	mu     sync.Mutex
	seen   map[int]known[T]       // by pid
	expect map[uint64]expected[T] // processes that become part of a command, by the allowed call
}

// known is the recorded state of a process.
type known[T any] struct {
	start   uint64 // start time, in clock ticks since boot
	command *T     // nil: it belongs to none, and its ancestors did not either when they were checked
}

type expected[T any] struct {
	pid     int
	command *T
}

// Expect notes that a process becomes part of a command if one of its calls succeeds. Until then its state is unchanged, because the kernel
// may reject the program and the process continues.
func (c *Commands[T]) Expect(pid int, call uint64, command *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.expect == nil || len(c.expect) >= maxExpected {
		c.expect = map[uint64]expected[T]{}
	}
	c.expect[call] = expected[T]{pid, command}
}

// Started adds a process to a command if Expect was called for the same call. The process must be stopped meanwhile, so that its pid cannot
// be reused.
func (c *Commands[T]) Started(pid int, call uint64) {
	c.mu.Lock()
	e, ok := c.expect[call]
	delete(c.expect, call)
	c.mu.Unlock()
	if ok && e.pid == pid {
		c.Add(pid, e.command)
	}
}

// Add adds a process to a command. The process must be stopped meanwhile.
func (c *Commands[T]) Add(pid int, command *T) {
	if p, ok := look(pid); ok {
		c.add(p, command)
	}
}

// process identifies a process uniquely, even if its pid is reused.
type process struct {
	pid   int
	start uint64 // start time, in clock ticks since boot
}

func (c *Commands[T]) add(p process, command *T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[int]known[T]{}
	}
	if k, ok := c.seen[p.pid]; ok && k.start == p.start && k.command != nil {
		return
	}
	if len(c.seen) >= maxProcesses {
		maps.DeleteFunc(c.seen, func(_ int, k known[T]) bool { return k.command == nil }) // these can be determined again
	}
	if len(c.seen) >= maxProcesses {
		maps.DeleteFunc(c.seen, func(pid int, k known[T]) bool {
			now, ok := look(pid)
			return !ok || now.start != k.start
		})
	}
	if len(c.seen) < maxProcesses {
		c.seen[p.pid] = known[T]{p.start, command}
	}
}

// of returns the recorded state of a process.
func (c *Commands[T]) of(p process) (command *T, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	k, ok := c.seen[p.pid]
	return k.command, ok && k.start == p.start
}

// Of returns the command that a process belongs to, or that started it; nil: none. If the parent ended before the
// process did anything, the process is unknown, and belongs to none. Neither does a process that was checked before any
// of its ancestors belonged to a command.
func (c *Commands[T]) Of(pid int) *T {
	var path []process
	var command *T
	if !above(pid, func(p process) (enough bool) {
		if len(path) > 0 && path[0].pid == p.pid {
			path = path[:0] // the walk was restarted
		}
		path = append(path, p)
		command, enough = c.of(p)
		return enough
	}) || len(path) == 0 {
		return nil
	}
	// Most processes of an agent have the same few ancestors. Walking up to the first process each time takes as long as everything else.
	c.add(path[0], command)
	if command == nil {
		for _, p := range path[1:] {
			c.add(p, nil)
		}
	}
	return command
}
