//go:build race && unix

package fd

import "syscall"

// Sending tells the race detector that bytes are about to be sent to a descriptor by a call that it does not know of, a
// syscall.RawSyscall: whatever comes before happens before they are received. Without the race detector it does nothing.
func Sending(fd int) { _, _ = syscall.Write(fd, nil) } // the detector knows the call, and nothing is sent

// Received tells the race detector that bytes were received from a descriptor by such a call.
func Received(fd int) { _, _ = syscall.Read(fd, nil) }
