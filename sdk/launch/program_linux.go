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

// descriptor returns a name of the opened file for a child that is about to execute it, and duplicates one of the
// child's own files to a higher number. An empty name means that the program must be executed by its path. The name is
// valid only in the child, until it executes the file.
//
// Before the exec, the runtime moves the child's files temporarily to numbers above all of them, and could thereby
// replace the program's descriptor. Therefore one of the child's files gets a number above that of the program.
func (p *program) descriptor(childs *os.File) (name string, moved *os.File) {
	if !p.isELF() {
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
