package decisions

import (
	"sync"

	"golang.org/x/sys/unix"
)

// Limits of messages to processes.
const (
	maxToldPIDs = 1024
	maxTold     = 8 // lines for one process
)

// words writes the reasons of rejections to processes. The zero value is ready.
type words struct {
	mu   sync.Mutex
	said map[int]int // lines by process
}

// say writes a line to the standard error of a process that waits for an answer, if that is a pipe, a socket or a terminal with room
// for it. It writes nothing to a file, or if the process's standard error is not read.
func (w *words) say(pid int, why string) {
	w.mu.Lock()
	if w.said == nil || len(w.said) > maxToldPIDs {
		w.said = map[int]int{}
	}
	w.said[pid]++
	enough := w.said[pid] > maxTold
	w.mu.Unlock()
	if enough {
		return
	}
	pidfd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(pidfd)
	fd, err := unix.PidfdGetfd(pidfd, 2, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFIFO, unix.S_IFSOCK, unix.S_IFCHR:
	default:
		return
	}
	p := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	if n, err := unix.Poll(p, 0); err != nil || n != 1 || p[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
		return
	}
	_, _ = unix.Write(fd, []byte("acphost: "+why+"\n"))
}
