// Package census examines all processes at once and reports which of them belong together: by descent, by session, or by
// a mark in their environment.
//
// When many terminals end, they all ask the same questions, many times. One walk through /proc answers all callers that
// wait at that moment. Without it, 200 terminals would walk through /proc 200 times, each time they check which processes
// are left.
//
// The package knows /proc. It sends no signals and does not know terminals.
package census

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Process is what matters of a process.
type Process struct {
	Parent, Session int
	// Start is when it started, in clock ticks since boot; with the pid it names a process for ever.
	Start uint64
	// Live is false for a zombie.
	Live bool
}

// Census is what a walk through /proc found. It is no snapshot: processes come and go meanwhile. It is not changed any
// more and may be read from everywhere.
type Census struct {
	Processes map[int]Process
	children  map[int][]int
	sessions  map[int][]int
	marked    map[string][]int
}

// Take walks through /proc. Marks are the environment entries that begin with prefix. Processes whose environment may not
// be read have none; the calling process has none either.
func Take(prefix string) (*Census, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, fmt.Errorf("look at all processes: %w", err)
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return nil, fmt.Errorf("look at all processes: %w", err)
	}
	c := &Census{
		Processes: make(map[int]Process, len(names)), children: map[int][]int{}, sessions: map[int][]int{}, marked: map[string][]int{},
	}
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			c.enter(pid, "/proc/"+name, prefix)
		}
	}
	return c, nil
}

// Session lists the processes of a session.
func (c *Census) Session(id int) []int { return c.sessions[id] }

// Marked lists the processes with this entry in their environment.
func (c *Census) Marked(entry string) []int { return c.marked[entry] }

// Trees lists the live processes among roots and all that descend from any of them, in no order.
func (c *Census) Trees(roots ...int) []int {
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
		if p.Live {
			found = append(found, pid)
		}
		for _, child := range c.children[pid] {
			// A parent is never younger than its child: its pid was used again while we walked.
			if c.Processes[child].Start >= p.Start {
				queue = append(queue, child)
			}
		}
	}
	return found
}

func (c *Census) enter(pid int, dir, prefix string) {
	line, err := os.ReadFile(dir + "/stat")
	if err != nil {
		return // gone, or hidden from us
	}
	p, threads, err := parse(line)
	if err != nil {
		return
	}
	c.Processes[pid] = p
	c.children[p.Parent] = append(c.children[p.Parent], pid)
	c.sessions[p.Session] = append(c.sessions[p.Session], pid)
	if !p.Live || pid == os.Getpid() {
		return
	}
	environ, err := os.ReadFile(dir + "/environ")
	if err == nil && len(environ) == 0 && threads > 1 {
		// A process whose first thread has ended shows its environment in the others only.
		tasks, _ := filepath.Glob(dir + "/task/*/environ")
		for _, task := range tasks {
			if environ, err = os.ReadFile(task); err == nil && len(environ) > 0 {
				break
			}
		}
	}
	for entry := range bytes.SplitSeq(environ, []byte{0}) {
		if strings.HasPrefix(string(entry), prefix) {
			c.marked[string(entry)] = append(c.marked[string(entry)], pid)
		}
	}
}

// parse reads a line of /proc/PID/stat. The command's name stands between the first opening and the last closing
// parenthesis and may hold anything.
func parse(line []byte) (p Process, threads int, err error) {
	fields := bytes.Fields(line[bytes.LastIndexByte(line, ')')+1:])
	const state, ppid, session, nthreads, start = 0, 1, 3, 17, 19 // field 3 of proc_pid_stat(5) comes first here
	if len(fields) <= start {
		return Process{}, 0, errors.New("a stat line is too short")
	}
	numbers := [...]struct {
		at int
		to *int
	}{{ppid, &p.Parent}, {session, &p.Session}, {nthreads, &threads}}
	for _, f := range numbers {
		if *f.to, err = strconv.Atoi(string(fields[f.at])); err != nil {
			return Process{}, 0, err
		}
	}
	if p.Start, err = strconv.ParseUint(string(fields[start]), 10, 64); err != nil {
		return Process{}, 0, err
	}
	switch fields[state][0] {
	case 'Z', 'X', 'x':
		p.Live = threads > 1
	default:
		p.Live = true
	}
	return p, threads, nil
}

// Office takes censuses for several who ask at once. Its zero value with a Prefix is ready. It is safe for concurrent use.
type Office struct {
	// Prefix is how the marks begin.
	Prefix string

	mu   sync.Mutex
	next *taking // not begun: whoever asks now may have its answer
	busy sync.Mutex
}

type taking struct {
	once sync.Once
	c    *Census
	err  error
}

// Take returns a census that was begun after the call, and shares it with others who asked meanwhile.
func (o *Office) Take() (*Census, error) {
	o.mu.Lock()
	if o.next == nil {
		o.next = &taking{}
	}
	t := o.next
	o.mu.Unlock()

	o.busy.Lock()
	defer o.busy.Unlock()
	t.once.Do(func() {
		o.mu.Lock()
		o.next = nil // who asks from now on needs another
		o.mu.Unlock()
		t.c, t.err = Take(o.Prefix)
	})
	return t.c, t.err
}
