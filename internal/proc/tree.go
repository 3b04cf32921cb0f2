package proc

// Tree is a process and all its descendants. Make one with TreeOf while the process is known to be there, so that
// another process that later gets the same pid is not taken for it.
type Tree struct {
	// Root is the pid at the top.
	Root int
	// Started is when Root started, in clock ticks since boot; 0 takes whatever process has the pid.
	Started uint64
}
