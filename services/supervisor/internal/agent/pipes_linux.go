package agent

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/fd"
)

// growPipe asks for a larger buffer; a refusal (the user's allowance is used up) costs speed only.
func growPipe(f *os.File, size int) {
	_ = fd.On(f, func(fd int) error {
		_, err := unix.FcntlInt(uintptr(fd), unix.F_SETPIPE_SZ, size)
		return err
	})
}
