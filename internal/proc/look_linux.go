package proc

// Process is what matters of a process to who looks for those that belong together.
type Process struct {
	Parent, Session, Threads int
	// Start is when it started, in clock ticks since boot; with the pid it names a process for ever.
	Start uint64
	// Live is false for a zombie.
	Live bool
}

// Look says what a process is now.
func Look(pid int) (Process, error) {
	s, err := readStat(pid)
	return Process{Parent: s.ppid, Session: s.session, Threads: s.threads, Start: s.start, Live: s.live()}, err
}

// Processes lists all processes that can be seen. It is no snapshot: processes come and go meanwhile.
func Processes() ([]int, error) { return pids() }
