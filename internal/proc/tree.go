package proc

// Tree is a process and all its descendants. Make it with TreeOf while the process is known to exist, so that another
// process that later gets the same pid is not confused with it.
type Tree struct {
	// Root is the pid at the top.
	Root int
	// Started is the start time of Root in clock ticks since boot; 0 means any process with the pid.
	Started uint64
}
