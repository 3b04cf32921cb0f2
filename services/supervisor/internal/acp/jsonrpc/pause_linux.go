package jsonrpc

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause makes the thread sleep for less than a millisecond, which is the resolution of Go's timers. It keeps its Go
// processor (P): another thread would use it to poll the source, and would wake up for each line.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
