//go:build !race || !unix

package fd

// Sending tells the race detector that bytes are about to be sent to a descriptor by a call that it does not know of, a
// syscall.RawSyscall: whatever comes before happens before they are received. Without the race detector it does nothing.
func Sending(int) {}

// Received tells the race detector that bytes were received from a descriptor by such a call.
func Received(int) {}
