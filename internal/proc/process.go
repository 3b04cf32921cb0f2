package proc

// Process is the part of /proc/PID/stat that this module needs; proc_pid_stat(5).
type Process struct {
	PID, Parent, Session, Threads int
	// Start is the start time in clock ticks since boot. With the pid it identifies a process uniquely.
	Start uint64

	state byte
}
