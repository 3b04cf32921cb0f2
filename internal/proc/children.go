package proc

import "sync"

// children are the processes that this process started and has not waited for. A process has one set of children, whoever in
// it starts them: hence one list.
var children struct {
	starting sync.RWMutex // read: a child is being started; write: the list is complete

	mu  sync.Mutex
	own map[int]int // guarded by mu; a pid may be given anew before its former owner says that it has waited
}

// EnterChild calls start, which starts a process and returns its pid, and enters it among the children that somebody in this
// process waits for, so that whoever reaps adopted processes leaves it alone; see Started. Call LeaveChild when it was waited
// for. Package child does both for commands.
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

// LeaveChild forgets a child that was waited for.
func LeaveChild(pid int) {
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.own[pid]--; children.own[pid] == 0 {
		delete(children.own, pid)
	}
}

// Started reports whether a child of this process is one that EnterChild has entered and nobody has waited for. The
// child must have been seen before: one that is being started is waited for here.
func Started(pid int) bool {
	children.starting.Lock()
	defer children.starting.Unlock()
	children.mu.Lock()
	defer children.mu.Unlock()
	return children.own[pid] > 0
}
