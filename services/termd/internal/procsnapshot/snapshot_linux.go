// Package procsnapshot reads all processes at once and reports which of them belong together: by descent, by session,
// or by a mark in their environment.
//
// When many terminals end, they all need this information, many times. One walk through /proc serves all callers that
// wait at that moment. Without it, 200 terminals would walk through /proc 200 times, each time they check which
// processes are left.
//
// The package reads processes through package proc. It sends no signals and must not know terminals.
package procsnapshot

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/acphost/acphost/internal/proc"
)

// Snapshot is the result of a walk through /proc. It is not atomic: processes start and end meanwhile. It is
// immutable and safe for concurrent use.
type Snapshot struct {
	Processes map[int]proc.Process
	children  map[int][]int
	sessions  map[int][]int
	marked    map[string][]int
}

// Take walks through /proc. Marks are the environment entries that begin with prefix. Processes with an unreadable
// environment and the calling process have no marks.
func Take(prefix string) (*Snapshot, error) {
	pids, err := proc.Processes()
	if err != nil {
		return nil, fmt.Errorf("list all processes: %w", err)
	}
	c := &Snapshot{
		Processes: make(map[int]proc.Process, len(pids)),
		children:  map[int][]int{}, sessions: map[int][]int{}, marked: map[string][]int{},
	}
	for _, pid := range pids {
		c.add(pid, prefix)
	}
	return c, nil
}

// Session lists the processes of a session.
func (c *Snapshot) Session(id int) []int { return c.sessions[id] }

// Marked lists the processes with this entry in their environment.
func (c *Snapshot) Marked(entry string) []int { return c.marked[entry] }

// Descendants lists the live processes among roots and all their descendants, in no order.
func (c *Snapshot) Descendants(roots ...int) []int {
	var found []int
	seen := map[int]bool{}
	for queue := slices.Clone(roots); len(queue) > 0; queue = queue[1:] {
		pid := queue[0]
		if seen[pid] {
			continue
		}
		seen[pid] = true
		p, ok := c.Processes[pid]
		if !ok {
			continue
		}
		if p.Live() {
			found = append(found, pid)
		}
		for _, child := range c.children[pid] {
			// A parent is never younger than its child: the parent's pid was reused during the walk.
			if c.Processes[child].Start >= p.Start {
				queue = append(queue, child)
			}
		}
	}
	return found
}

func (c *Snapshot) add(pid int, prefix string) {
	p, err := proc.Stat(pid)
	if err != nil {
		return // gone, or hidden from this process
	}
	c.Processes[pid] = p
	c.children[p.Parent] = append(c.children[p.Parent], pid)
	c.sessions[p.Session] = append(c.sessions[p.Session], pid)
	if !p.Live() || pid == os.Getpid() {
		return
	}
	for entry := range bytes.SplitSeq(proc.Environ(pid), []byte{0}) {
		if strings.HasPrefix(string(entry), prefix) {
			c.marked[string(entry)] = append(c.marked[string(entry)], pid)
		}
	}
}

// Sharer shares snapshots among concurrent callers. Its zero value with a Prefix is ready. It is safe for concurrent
// use.
type Sharer struct {
	// Prefix is the prefix of the marks.
	Prefix string

	mu   sync.Mutex
	next *run // not begun: callers may share its result
	busy sync.Mutex
}

type run struct {
	once sync.Once
	c    *Snapshot
	err  error
}

// Take returns a snapshot that was begun after the call, and shares it with concurrent callers.
func (o *Sharer) Take() (*Snapshot, error) {
	o.mu.Lock()
	if o.next == nil {
		o.next = &run{}
	}
	t := o.next
	o.mu.Unlock()

	o.busy.Lock()
	defer o.busy.Unlock()
	t.once.Do(func() {
		o.mu.Lock()
		o.next = nil // later callers need another snapshot
		o.mu.Unlock()
		t.c, t.err = Take(o.Prefix)
	})
	return t.c, t.err
}
