package proc

// SmallRuntime is the environment by which a Go program that mostly waits takes little memory: one processor, no pages of
// 2 MB, and no collection of garbage before the whole runtime has 16 MB, since the bookkeeping of one takes more memory than
// such a program leaves behind.
func SmallRuntime() []string {
	return []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=16MiB", "GODEBUG=disablethp=1"}
}
