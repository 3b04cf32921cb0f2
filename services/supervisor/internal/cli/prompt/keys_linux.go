package prompt

import "golang.org/x/sys/unix"

// How attributes of a terminal are read, set at once, and set once its output is written; then, input that was not read is
// dropped.
const (
	getAttributes      = unix.TCGETS
	setAttributes      = unix.TCSETS
	setAttributesFlush = unix.TCSETSF
)

// flushInput drops what was typed and not read.
func flushInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }
