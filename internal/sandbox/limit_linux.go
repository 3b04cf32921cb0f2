//go:build amd64 || arm64

package sandbox

import (
	"context"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

const (
	// countInterval is the time between two checks of the number of processes.
	countInterval = time.Second
	// recountInterval is the longest time between two counts.
	recountInterval = 10 * time.Second
	// endTimeout limits the time to end more processes than allowed.
	endTimeout = time.Minute
)

// forbidCoreFiles sets the limit of the size of core files to 0 for this process and those that it starts from now on.
// The kernel writes a core file without asking the sandbox.
func forbidCoreFiles() error {
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}); err != nil {
		return fmt.Errorf("forbid core files: %w", err)
	}
	return nil
}

// limitProcesses ends all descendants of this process when there are more than most, until over is closed. A count of
// the descendants reads all processes of the machine. So it counts only if the number of all tasks has grown enough
// since the last count, or after recountInterval.
func limitProcesses(most int, d Decider, over <-chan struct{}) {
	tick := time.NewTicker(countInterval)
	defer tick.Stop()
	next, last := most, time.Now()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		tasks := allTasks()
		if tasks <= most || tasks <= next && time.Since(last) < recountInterval {
			continue
		}
		found, err := proc.Descendants(os.Getpid())
		if err != nil {
			continue
		}
		if len(found) > most {
			what := fmt.Sprintf("more than %d processes at the same time: all of them were ended", most)
			fmt.Fprintln(os.Stderr, "acphost: refused: "+what+" (sandbox.max_processes)")
			d.Refused(found[0], what)
			ctx, cancel := context.WithTimeout(context.Background(), endTimeout)
			_ = proc.End(ctx, func() ([]int, error) { return proc.Descendants(os.Getpid()) }, 0) // the next count tries again
			cancel()
			found = nil
		}
		next, last = tasks+(most-len(found))/2, time.Now()
	}
}

// allTasks returns the number of processes and threads of the machine.
func allTasks() int {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return 0
	}
	return int(info.Procs)
}
