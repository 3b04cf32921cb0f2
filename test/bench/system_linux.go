package main

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// widen sets the size of pipes to the one that acphost uses for an agent.
func widen(pipes ...*os.File) {
	for _, f := range pipes {
		raw, err := f.SyscallConn()
		if err != nil {
			continue
		}
		_ = raw.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, 256<<10) })
	}
}

// processorTime is the processor time of all threads of a process so far, in user mode and in the kernel; 0 if unknown.
func processorTime(pid int) time.Duration {
	const ofProcess = 2 // clock_getcpuclockid(3): CPUCLOCK_SCHED of a thread group
	var t unix.Timespec
	if unix.ClockGettime(int32(^pid<<3|ofProcess), &t) != nil {
		return 0
	}
	return time.Duration(t.Nano())
}
