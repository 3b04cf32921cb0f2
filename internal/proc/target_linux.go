package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// target is a process with a pidfd, which never refers to another process.
type target struct {
	process
	fd      int // -1: there is no pidfd; the start time is compared before each signal instead
	stopped bool
}

// take opens a handle of a process. ok is false if the process has ended. Init and the caller are never targets.
func take(pid int) (t target, ok bool, err error) {
	if pid <= 1 || pid == os.Getpid() {
		return target{}, false, fmt.Errorf("process %d is not one to end", pid)
	}
	fd, err := unix.PidfdOpen(pid, 0)
	switch {
	case errors.Is(err, unix.ESRCH):
		return target{}, false, nil
	case err != nil:
		fd = -1 // an old kernel, a seccomp filter, or a fork bomb with more processes than this process may have files
	}
	s, err := Stat(pid)
	if err != nil {
		closeHandle(fd)
		if errors.Is(err, errGone) {
			err = nil
		}
		return target{}, false, err
	}
	return target{process: process{pid: pid, start: s.Start}, fd: fd, stopped: s.stopped()}, true, nil
}

func (t target) signal(sig syscall.Signal) error {
	err := t.send(sig)
	if err == nil && t.stopped && sig == syscall.SIGTERM {
		err = t.send(unix.SIGCONT) // a stopped process would not handle SIGTERM
	}
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	return err
}

func (t target) send(sig syscall.Signal) error {
	if t.fd >= 0 {
		return unix.PidfdSendSignal(t.fd, sig, nil, 0)
	}
	if s, err := Stat(t.pid); err == nil && s.Start == t.start {
		return unix.Kill(t.pid, sig)
	}
	return unix.ESRCH
}

func (t target) close() { closeHandle(t.fd) }

func closeHandle(fd int) {
	if fd >= 0 {
		unix.Close(fd)
	}
}

// awaitOne waits until one of the processes has ended, or for d at most.
func (t targets) awaitOne(ctx context.Context, d time.Duration) {
	fds := make([]unix.PollFd, len(t))
	for i := range t {
		fds[i] = unix.PollFd{Fd: int32(t[i].fd), Events: unix.POLLIN}
	}
	for until := time.Now().Add(d); ctx.Err() == nil; {
		left := time.Until(until)
		if left <= 0 {
			return
		}
		if _, err := unix.Poll(fds, int(left.Milliseconds())+1); !errors.Is(err, unix.EINTR) {
			return
		}
	}
}

// List lists the live processes of the tree, the root first. It is empty if the root has ended: its descendants then
// have other ancestors.
func (t Tree) List() ([]int, error) {
	procs, err := all()
	if err != nil {
		return nil, err
	}
	root, ok := procs[t.Root]
	if !ok || (t.Started != 0 && root.Start != t.Started) {
		return nil, nil
	}
	found := descendants(procs, t.Root)
	if root.Live() {
		found = append([]int{t.Root}, found...)
	}
	return found, nil
}

// TreeOf returns the tree of an existing process.
func TreeOf(pid int) (Tree, error) {
	s, err := Stat(pid)
	if err != nil {
		return Tree{}, err
	}
	return Tree{Root: pid, Started: s.Start}, nil
}
