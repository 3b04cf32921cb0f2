package proc

import (
	"errors"
	"fmt"
)

const (
	// maxAncestors is more than the depth of any normal process tree. A deeper tree was made to cost time.
	maxAncestors = 1024
	// maxWalks limits the repetitions of a walk after a process on the way has ended.
	maxWalks = 64
)

// Ancestry calls visit for a process and each of its ancestors, starting with the process itself, until visit reports
// that it has seen enough or no ancestor is left. If visit reads a process in /proc while it is called, it reads that
// very process, which was the previous one's parent at the time, and not another one that reuses its pid. If a process
// on the way ends meanwhile, the walk starts again, and visit gets processes again.
//
// An error means that the result is unknown: it is an error of visit, or a process does not exist or is not visible
// (0), or the tree changes too fast. A caller that authorizes a request should treat it as the worst result.
func Ancestry(pid int, visit func(pid int) (enough bool, err error)) error {
	return ancestors(pid, true, func(p Process) (bool, error) { return visit(p.PID) })
}

// Ancestors is Ancestry for callers that need only /proc/PID/stat of each process, which has been read already.
func Ancestors(pid int, visit func(Process) (enough bool, err error)) error {
	return ancestors(pid, false, visit)
}

// ancestors calls visit for a process and each of its ancestors. reads: visit reads more of them in /proc.
func ancestors(pid int, reads bool, visit func(Process) (enough bool, err error)) error {
	if pid <= 0 {
		return fmt.Errorf("ancestors of process %d: the process is not visible", pid)
	}
	for range maxWalks {
		err := walkUp(pid, reads, visit)
		if !errors.Is(err, errMoved) {
			return err
		}
	}
	return fmt.Errorf("ancestors of process %d: processes above it end too fast to be followed", pid)
}

// errMoved means that the data may have been read from different processes.
var errMoved = errors.New("a process ended on the way")

func walkUp(pid int, reads bool, visit func(Process) (bool, error)) error {
	at, err := Stat(pid)
	if err != nil {
		return fmt.Errorf("ancestors of process %d: %w", pid, err)
	}
	if !at.Live() {
		return fmt.Errorf("ancestors of process %d: it has ended", pid)
	}
	if enough, err := visit(at); enough || err != nil {
		return err
	}
	for range maxAncestors {
		if at.Parent <= 0 {
			// This is the topmost visible process, if it has not changed.
			return still(at)
		}
		above, err := Stat(at.Parent)
		if errors.Is(err, errGone) {
			if moved := still(at); moved != nil {
				return moved
			}
			return fmt.Errorf("ancestors of process %d: process %d is there, but not visible", pid, at.Parent)
		}
		if err != nil {
			return fmt.Errorf("ancestors of process %d: %w", pid, err)
		}
		enough, err := visit(above)
		// As long as a process has its parent, the parent's pid is not reused: the data read in between is the
		// parent's. A process that started before its child has had its pid ever since.
		if reads || above.Start >= at.Start {
			if moved := still(at); moved != nil {
				return moved
			}
		}
		if enough || err != nil {
			return err
		}
		at = above
	}
	return fmt.Errorf("ancestors of process %d: there are more than %d", pid, maxAncestors)
}

// still returns errMoved unless a process still exists and has the same parent.
func still(was Process) error {
	now, err := Stat(was.PID)
	if err != nil || now.Start != was.Start || now.Parent != was.Parent {
		return errMoved
	}
	return nil
}
