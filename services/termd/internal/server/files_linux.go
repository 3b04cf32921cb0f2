package server

import (
	"math"

	"golang.org/x/sys/unix"
)

// keepFiles keeps the files that this process was started with, beside the standard ones, from the commands: whoever
// started us may have left something open that is none of their business.
func keepFiles() { _ = unix.CloseRange(3, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) }
