package proc

import (
	"errors"
	"fmt"
)

const (
	// maxAncestors is more than any tree that people work in has levels. A deeper one was made to cost time.
	maxAncestors = 1024
	// maxWalks is how often a walk is begun anew because a process on the way has ended.
	maxWalks = 64
)

// Ancestry calls visit for a process and each of its ancestors, the process itself first, until visit says that it has
// seen enough or there is none above. What visit reads of a process in /proc while it is called is of that very
// process, a descendant's parent at the time, and not of another one that got its pid. Where a process on the way ends
// meanwhile, the walk begins anew, and visit sees processes again.
//
// An error says that the answer is not known: visit's own, or that a process is not there or not visible (0), or that
// the tree does not keep still. Who guards a door should treat it as the worst.
func Ancestry(pid int, visit func(pid int) (enough bool, err error)) error {
	return ancestors(pid, true, func(p Process) (bool, error) { return visit(p.PID) })
}

// Ancestors is Ancestry for who goes by what /proc/PID/stat says of each process, which has been read then, and reads
// nothing more of it.
func Ancestors(pid int, visit func(Process) (enough bool, err error)) error {
	return ancestors(pid, false, visit)
}

// ancestors calls visit for a process and each of its ancestors. reads: visit reads more of them.
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

// errMoved says that what was read may be of different processes.
var errMoved = errors.New("a process ended on the way")

func walkUp(pid int, reads bool, visit func(Process) (bool, error)) error {
	at, err := Look(pid)
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
			// It is the first process that can be seen from here, if it still is what it was.
			return still(at)
		}
		above, err := Look(at.Parent)
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
		// As long as a process has its parent, nobody else has the parent's pid: what was read in between is the
		// parent's. What was there before the process was made has had its pid ever since.
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

// still is errMoved unless a process is there and has the parent that it had.
func still(was Process) error {
	now, err := Look(was.PID)
	if err != nil || now.Start != was.Start || now.Parent != was.Parent {
		return errMoved
	}
	return nil
}
