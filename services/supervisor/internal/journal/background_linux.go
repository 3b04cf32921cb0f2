package journal

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// niceness is how much less than others the writer counts for, where there is not enough processor for all.
const niceness = 10

// background has the calling goroutine run in a thread of its own, which the system prefers others to: where something
// must wait, it is the journal, and not the link. The thread ends with the goroutine.
func background() {
	runtime.LockOSThread()
	_ = unix.Setpriority(unix.PRIO_PROCESS, unix.Gettid(), niceness) // it is as good as possible, no more
}
