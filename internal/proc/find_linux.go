package proc

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
)

// Descendants lists all live descendants of a process, parents before their children. It omits the process itself and
// zombies. It may miss processes forked meanwhile: repeat it until the list is empty.
//
// A descendant whose parents have died is found only if pid is their subreaper.
func Descendants(pid int) ([]int, error) {
	procs, err := all()
	if err != nil {
		return nil, err
	}
	return descendants(procs, pid), nil
}

// InSession lists the live processes of a session: those that a session leader left behind and that did not call setsid
// themselves.
func InSession(session int) ([]int, error) {
	if session <= 0 {
		return nil, fmt.Errorf("list session %d: not a session", session)
	}
	procs, err := all()
	if err != nil {
		return nil, err
	}
	var found []int
	for pid, s := range procs {
		if s.Session == session && s.Live() {
			found = append(found, pid)
		}
	}
	slices.Sort(found)
	return found, nil
}

// WithEnviron lists the live processes that were started with the entry mark, "NAME=VALUE", in their environment,
// except the calling process. The whole entry must match. It omits processes whose environment is not readable: those
// of other users, unless the caller is root, and undumpable ones.
//
// It finds processes that have lost their ancestors; it does not find a process that was started with a clean
// environment.
func WithEnviron(mark string) ([]int, error) {
	if mark == "" {
		return nil, errors.New("find processes by environment: empty mark")
	}
	pids, err := Processes()
	if err != nil {
		return nil, err
	}
	var found []int
	self := os.Getpid()
	for _, pid := range pids {
		if pid == self || !slices.Contains(strings.Split(string(Environ(pid)), "\x00"), mark) {
			continue
		}
		if s, err := Stat(pid); err == nil && s.Live() {
			found = append(found, pid)
		}
	}
	return found, nil
}

// ReapAdopted reaps the zombies among the caller's children for which known returns false, and returns their number. A
// subreaper calls it on SIGCHLD. It never blocks.
//
// It calls known only for zombies, after it has read them. known must return true for a child that is being started
// even before os/exec has returned its pid, or its status is lost: known should take the lock under which processes are
// started and registered.
func ReapAdopted(known func(pid int) bool) (int, error) {
	pids, err := listChildren()
	if err != nil {
		return 0, fmt.Errorf("reap adopted processes: %w", err)
	}
	reaped := 0
	for _, pid := range pids {
		s, err := Stat(pid)
		if err != nil || s.Live() || known(pid) {
			continue
		}
		if _, ok, err := Reap(pid); err == nil && ok {
			reaped++
		}
	}
	return reaped, nil
}

// listChildren lists the calling process's children, including zombies.
func listChildren() ([]int, error) {
	if err := ProcSupported(); err != nil {
		return nil, err
	}
	if lists := ofTasks("self", "children"); len(lists) > 0 {
		var found []int
		for _, data := range lists {
			for _, field := range bytes.Fields(data) {
				if pid, err := strconv.Atoi(string(field)); err == nil {
					found = append(found, pid)
				}
			}
		}
		return found, nil
	}
	return childrenAmongAll() // a kernel without CONFIG_PROC_CHILDREN
}

// childrenAmongAll lists the calling process's children by reading every process.
func childrenAmongAll() ([]int, error) {
	procs, err := all()
	if err != nil {
		return nil, err
	}
	var found []int
	self := os.Getpid()
	for pid, s := range procs {
		if s.Parent == self {
			found = append(found, pid)
		}
	}
	return found, nil
}

func descendants(procs map[int]Process, root int) []int {
	kids := make(map[int][]int, len(procs))
	for pid, s := range procs {
		// A parent is never younger than its child. If it seems so, the parent's pid was reused while the processes
		// were read.
		if parent, ok := procs[s.Parent]; ok && parent.Start <= s.Start {
			kids[s.Parent] = append(kids[s.Parent], pid)
		}
	}
	var found []int
	seen := map[int]bool{root: true}
	for queue := []int{root}; len(queue) > 0; queue = queue[1:] {
		next := kids[queue[0]]
		slices.Sort(next)
		for _, pid := range next {
			if seen[pid] {
				continue
			}
			seen[pid] = true
			queue = append(queue, pid)
			if procs[pid].Live() {
				found = append(found, pid)
			}
		}
	}
	return found
}

// Environ returns the environment that a process was started with, each entry followed by a NUL; nil: it is not
// readable, or the process is gone.
func Environ(pid int) []byte {
	data, err := readProc(pid, "environ")
	if err == nil && len(data) > 0 {
		return data
	}
	// The environment of a process whose first thread has ended is readable only through its other threads.
	if now, err := Stat(pid); err != nil || now.Threads < 2 || now.state != 'Z' && now.state != 'X' {
		return nil
	}
	for _, data := range ofTasks(strconv.Itoa(pid), "environ") {
		if len(data) > 0 {
			return data
		}
	}
	return nil
}

// ofTasks reads a file of each thread of a process. It omits threads that end meanwhile. It returns none if there are
// no such files. (The children of an ended thread have moved to another thread, and may be missed once.)
func ofTasks(pid, name string) (found [][]byte) {
	folder := "/proc/" + pid + "/task/"
	tasks, _ := os.ReadDir(folder)
	for _, task := range tasks {
		if data, err := os.ReadFile(folder + task.Name() + "/" + name); err == nil {
			found = append(found, data)
		}
	}
	return found
}
