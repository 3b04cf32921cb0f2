package jsonrpc

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pause has the thread sleep for less than a timer of Go's can, which is a millisecond. It keeps its processor of Go's: another
// thread that took it would wait for the source meanwhile, and be woken by each line.
func pause(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	_, _, _ = unix.RawSyscall(unix.SYS_NANOSLEEP, uintptr(unsafe.Pointer(&t)), 0, 0)
}
