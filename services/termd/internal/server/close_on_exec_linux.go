package server

import (
	"math"

	"golang.org/x/sys/unix"
)

// setCloseOnExec keeps the inherited files of this process, except the standard ones, from the commands: the parent of
// this process may have left files open.
func setCloseOnExec() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }
