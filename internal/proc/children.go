package proc

import "sync"

// children are the processes that this process started and has not waited for. All packages of a process share its
// children, so there is one list.
var children struct {
	starting sync.RWMutex // read: a child is being started; write: the list is complete

	mu  sync.Mutex
	own map[int]int // guarded by mu; a pid may be reused before LeaveChild is called for its former process
}

// EnterChild calls start, which starts a process and returns its pid. It registers the child as one that this process
// waits for, so that code that reaps adopted processes ignores it; see Started. Call LeaveChild after waiting for the
// child. Package child does both for commands.
func EnterChild(start func() (pid int, err error)) error {
	children.starting.RLock()
	defer children.starting.RUnlock()
	pid, err := start()
	if err != nil {
		return err
	}
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.own == nil {
		children.own = map[int]int{}
	}
	children.own[pid]++
	return nil
}

// LeaveChild removes a child that was waited for.
func LeaveChild(pid int) {
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.own[pid]--; children.own[pid] == 0 {
		delete(children.own, pid)
	}
}

// Started reports whether EnterChild registered a child of this process that was not waited for yet. Call it only for a
// child that exists: it waits for children that are being started.
func Started(pid int) bool {
	children.starting.Lock()
	defer children.starting.Unlock()
	children.mu.Lock()
	defer children.mu.Unlock()
	return children.own[pid] > 0
}
