package agent

import (
	"os"

	"golang.org/x/sys/unix"
)

// growPipe asks for a larger buffer; a refusal (the user's allowance is used up) costs speed only.
func growPipe(f *os.File, size int) {
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) { _, _ = unix.FcntlInt(fd, unix.F_SETPIPE_SZ, size) })
}
