package proc

// SmallRuntime returns environment variables with which a Go program that mostly waits uses little memory: one
// processor, no pages of 2 MB, and no garbage collection before the runtime has 16 MB, because a collection's
// bookkeeping takes more memory than such a program leaves as garbage.
func SmallRuntime() []string {
	return []string{"GOMAXPROCS=1", "GOGC=off", "GOMEMLIMIT=16MiB", "GODEBUG=disablethp=1"}
}
