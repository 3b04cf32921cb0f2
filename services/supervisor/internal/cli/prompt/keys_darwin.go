package prompt

import "golang.org/x/sys/unix"

// Requests to read the attributes of a terminal, to set them at once, and to set them after its output is written and
// to discard unread input.
const (
	getAttributes      = unix.TIOCGETA
	setAttributes      = unix.TIOCSETA
	setAttributesFlush = unix.TIOCSETAF
)

// flushInput discards unread input.
func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, unix.TCIFLUSH) }
