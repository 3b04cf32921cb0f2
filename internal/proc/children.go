package proc

import (
	"os/exec"
	"sync"
)

// children are the processes that this process started by StartChild and has not waited for. A process has one set of
// children, whoever in it starts them: hence one list.
var children struct {
	starting sync.RWMutex // read: a child is being started; write: the list is complete

	mu  sync.Mutex
	own map[int]int // guarded by mu; a pid may be given anew before its former owner says that it has waited
}

// StartChild starts a command and enters it among the children that somebody in this process waits for, with WaitChild,
// so that whoever reaps adopted processes leaves it alone; see Started.
func StartChild(cmd *exec.Cmd) error {
	children.starting.RLock()
	defer children.starting.RUnlock()
	if err := cmd.Start(); err != nil {
		return err
	}
	children.mu.Lock()
	defer children.mu.Unlock()
	if children.own == nil {
		children.own = map[int]int{}
	}
	children.own[cmd.Process.Pid]++
	return nil
}

// WaitChild waits for a command that StartChild has started, as its Wait does.
func WaitChild(cmd *exec.Cmd) error {
	err := cmd.Wait()
	children.mu.Lock()
	defer children.mu.Unlock()
	pid := cmd.Process.Pid
	if children.own[pid]--; children.own[pid] == 0 {
		delete(children.own, pid)
	}
	return err
}

// Started reports whether a child of this process is one that StartChild has started and nobody has waited for. The
// child must have been seen before: one that is being started is waited for here.
func Started(pid int) bool {
	children.starting.Lock()
	defer children.starting.Unlock()
	children.mu.Lock()
	defer children.mu.Unlock()
	return children.own[pid] > 0
}
