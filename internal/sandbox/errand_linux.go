//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An errand is a short process of the sandbox's that enters namespaces of a process inside and makes system calls
// there. A thread of Go's cannot: the kernel lets only a process of one thread change its user namespace. It is made by
// a plain fork, so it has a copy of the sandbox's memory, and it shares the sandbox's open files, so that the sandbox
// has what it opens. It runs no code of Go's runtime: everything that it does is written down before it is made.
//
// The processes inside cannot reach it: it is outside of their Landlock domain, and it is not dumpable, as the sandbox
// is not.

// step is one system call of an errand.
type step struct {
	number uintptr
	args   [6]uintptr
	// from has, for each argument, the number of a step whose result it is, counted from 1; 0: the argument is in args.
	from [6]uint8
}

// forks is no call: the rest of the errand is done by a child, which is in the PID namespace that was entered.
const forks = ^uintptr(0)

// mostSteps bounds an errand.
const mostSteps = 32

// errand is what is to be done.
type errand struct {
	steps []step
	keep  []any // what steps point to
}

// add adds a call, and returns its number for arg.
func (e *errand) add(number uintptr, args ...uintptr) int {
	s := step{number: number}
	copy(s.args[:], args)
	e.steps = append(e.steps, s)
	return len(e.steps)
}

// arg has an argument of the last call be the result of an earlier one.
func (e *errand) arg(n, of int) { e.steps[len(e.steps)-1].from[n] = uint8(of) }

// text is a string as an argument.
func (e *errand) text(s string) uintptr {
	b := append([]byte(s), 0)
	e.keep = append(e.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// file is a file that is held open as a path relative to the folder self of the errand.
func (e *errand) file(fd int) uintptr { return e.text(strconv.Itoa(fd)) }

// self opens the folder in which the errand has its open files by their numbers. It comes before any namespace is
// entered.
func (e *errand) self() int {
	const at = unix.AT_FDCWD
	here := at
	return e.add(unix.SYS_OPENAT, uintptr(here), e.text("/proc/self/fd"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// run does it, and returns the results of the calls. The error is that of the first call that failed. The calling
// thread must be its goroutine's own, with all signals blocked (see ownThread).
func (e *errand) run() (results []int, err error) {
	if len(e.steps) > mostSteps {
		return nil, fmt.Errorf("an errand of %d steps", len(e.steps))
	}
	// Memory that the errand and the sandbox share: a result for each step.
	memory, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	out := (*[mostSteps]int64)(unsafe.Pointer(&memory[0]))
	const untold = -int64(unix.EINTR) // the errand was killed
	for i := range out {
		out[i] = untold
	}
	steps := new([mostSteps]step)
	copy(steps[:], e.steps)
	const pidfdAt = 1024 // behind the results
	pidfd := (*int32)(unsafe.Pointer(&memory[pidfdAt]))
	if errno := forkErrand(steps, len(e.steps), out, pidfd); errno != 0 {
		return nil, errno
	}
	for {
		err := unix.Waitid(unix.P_PIDFD, int(*pidfd), nil, unix.WEXITED, nil)
		if !errors.Is(err, unix.EINTR) {
			break // ECHILD: the thread that collects what the sandbox has adopted was first
		}
	}
	unix.Close(int(*pidfd))
	runtime.KeepAlive(e.keep)
	runtime.KeepAlive(steps)
	for i, s := range e.steps {
		if out[i] < 0 {
			err = unix.Errno(-out[i])
			break
		}
		if s.number != forks {
			results = append(results, int(out[i]))
		} else {
			results = append(results, 0)
		}
	}
	return results, err
}

// forkErrand makes the process. In there, it does not return.
//
//go:norace
//go:nosplit
func forkErrand(steps *[mostSteps]step, n int, out *[mostSteps]int64, pidfd *int32) unix.Errno {
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_FILES|unix.CLONE_PIDFD|uintptr(unix.SIGCHLD), 0,
		uintptr(unsafe.Pointer(pidfd)), 0, 0, 0)
	if errno != 0 || pid != 0 {
		return errno
	}
	for i := range n {
		s := &steps[i]
		if s.number == forks {
			child, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, unix.CLONE_FILES|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
			if errno != 0 {
				out[i] = -int64(errno)
				break
			}
			if child != 0 {
				_, _, _ = syscall.RawSyscall6(unix.SYS_WAIT4, child, 0, 0, 0, 0, 0)
				break
			}
			out[i] = 0
			continue
		}
		for k := range s.args {
			if of := s.from[k]; of != 0 {
				s.args[k] = uintptr(out[of-1])
			}
		}
		r, _, errno := syscall.RawSyscall6(s.number, s.args[0], s.args[1], s.args[2], s.args[3], s.args[4], s.args[5])
		if errno != 0 {
			out[i] = -int64(errno)
			break
		}
		out[i] = int64(r)
	}
	for {
		_, _, _ = syscall.RawSyscall6(unix.SYS_EXIT_GROUP, 0, 0, 0, 0, 0, 0)
	}
}
