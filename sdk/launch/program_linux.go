package launch

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

func changeTime(info os.FileInfo) time.Time {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(st.Ctim.Unix())
	}
	return info.ModTime()
}

// descriptor names the opened file for a child that is about to execute it, and moves one of the child's own files out of
// its way; empty: it has to be executed by its path. The name is good in the child alone, until it executes the file.
//
// Before a child executes anything, the runtime moves files there to numbers above all of those that the child gets, and
// might so hide ours: hence one that the child gets has a higher number.
func (p *program) descriptor(childs *os.File) (name string, moved *os.File) {
	if !p.native() {
		return "", nil
	}
	name = "/proc/self/fd/" + strconv.Itoa(int(p.file.Fd()))
	if _, err := os.Stat(name); err != nil { // no /proc
		return "", nil
	}
	fd, err := unix.FcntlInt(childs.Fd(), unix.F_DUPFD_CLOEXEC, int(p.file.Fd())+1)
	if err != nil {
		return "", nil
	}
	return name, os.NewFile(uintptr(fd), childs.Name())
}
