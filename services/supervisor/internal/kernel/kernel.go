// Package kernel keeps what is known of an agent's processes that run in a sandbox: which of them belong to a command that was
// allowed, and which program they run.
//
// It reads /proc, and decides nothing. It must not know ACP, sessions or policies.
package kernel

import (
	"os"
	"strconv"
	"sync"

	"github.com/acphost/acphost/internal/proc"
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
	seen   map[int]uint64 // when a process started, by its pid
	expect map[uint64]int // the process that is to become a command's, by the call that was allowed
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
		c.add(p)
	}
}

// process names a process for ever.
type process struct {
	pid   int
	start uint64 // when it started, in clock ticks since the machine did
}

func (c *Commands) add(p process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen == nil {
		c.seen = map[int]uint64{}
	}
	if len(c.seen) >= maxProcesses {
		for pid, start := range c.seen {
			if now, ok := look(pid); !ok || now.start != start {
				delete(c.seen, pid)
			}
		}
	}
	if len(c.seen) < maxProcesses {
		c.seen[p.pid] = p.start
	}
}

func (c *Commands) has(p process) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	start, ok := c.seen[p.pid]
	return ok && start == p.start
}

// Within reports whether a process is that of a command, or was started by one. A process whose parent has ended before the
// process did anything is not known any more, and is not within.
func (c *Commands) Within(pid int) bool {
	own, ok := look(pid)
	if !ok {
		return false
	}
	if c.has(own) {
		return true
	}
	within := false
	err := proc.Ancestry(pid, func(at int) (bool, error) {
		p, ok := look(at)
		within = ok && c.has(p)
		return within, nil
	})
	if err != nil || !within {
		return false
	}
	c.add(own)
	return true
}

// Program is the file that a process runs, as far as that can be seen.
func Program(pid int) string {
	file, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	if err != nil {
		return ""
	}
	return file
}
