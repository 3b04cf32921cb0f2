package proc

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Undumpable protects the calling process from other processes of the same user: they can neither trace it nor read its
// memory, environment or open files in /proc, and it leaves no core dump. Root with CAP_SYS_PTRACE still can; Confine
// prevents that. The next exec reverts it.
func Undumpable() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("make the process undumpable: %w", err)
	}
	return nil
}

// Subreaper makes the calling process the parent of every descendant whose own parent ends. It must then reap them
// (ReapAdopted). Children do not inherit it.
func Subreaper() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("become a subreaper: %w", err)
	}
	return nil
}
