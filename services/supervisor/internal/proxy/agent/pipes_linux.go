package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// growPipe requests a larger buffer. If the user's limit is exhausted, the pipe is only slower.
func growPipe(f *os.File, size int) {
	_ = fd.On(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size)
		return err
	})
}
