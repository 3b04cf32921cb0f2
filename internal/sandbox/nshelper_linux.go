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

// A helper (nsHelper) is a short-lived process of the sandbox that enters namespaces of a confined process and makes system calls there. A
// thread of a Go program cannot: the kernel lets only a process with one thread change its user namespace. The helper is made by a
// plain fork, so it has a copy of the sandbox's memory. It shares the sandbox's open files, so the sandbox gets the files that the
// helper opens. It runs no code of the Go runtime: all steps are recorded before the fork.
//
// The confined processes cannot reach the helper: it is outside of their Landlock domain, and it is not dumpable, like the sandbox.

// step is one system call of a helper.
type step struct {
	number uintptr
	args   [6]uintptr
	// from names, for each argument, the step whose result is the argument, counted from 1; 0: the argument is in args.
	from [6]uint8
}

// forks is no system call. It makes a child that does the rest of the helper, in the PID namespace that was entered.
const forks = ^uintptr(0)

// maxSteps limits the steps of a helper.
const maxSteps = 32

// nsHelper is a list of system calls to make in one process.
type nsHelper struct {
	steps []step
	keep  []any // keeps the memory alive that steps point to
}

// add adds a call, and returns its step number for arg.
func (e *nsHelper) add(number uintptr, args ...uintptr) int {
	s := step{number: number}
	copy(s.args[:], args)
	e.steps = append(e.steps, s)
	return len(e.steps)
}

// arg uses the result of an earlier call as argument n of the last call.
func (e *nsHelper) arg(n, of int) { e.steps[len(e.steps)-1].from[n] = uint8(of) }

// text returns a pointer to a string, for use as an argument.
func (e *nsHelper) text(s string) uintptr {
	b := append([]byte(s), 0)
	e.keep = append(e.keep, b)
	return uintptr(unsafe.Pointer(&b[0]))
}

// file returns the path of an open file, relative to the folder that self opens.
func (e *nsHelper) file(fd int) uintptr { return e.text(strconv.Itoa(fd)) }

// self opens /proc/self/fd of the helper, where its open files are listed by number. It must precede any step that enters a
// namespace.
func (e *nsHelper) self() int {
	const at = unix.AT_FDCWD
	here := at
	return e.add(unix.SYS_OPENAT, uintptr(here), e.text("/proc/self/fd"), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// run runs the helper, and returns the results of its calls, or the error of the first call that failed. The goroutine must be locked
// to its thread, with all signals blocked (see ownThread).
func (e *nsHelper) run() (results []int, err error) {
	if len(e.steps) > maxSteps {
		return nil, fmt.Errorf("an errand of %d steps", len(e.steps))
	}
	// Memory that the helper and the sandbox share: a result for each step.
	memory, err := unix.Mmap(-1, 0, page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, err
	}
	defer func() { _ = unix.Munmap(memory) }()
	out := (*[maxSteps]int64)(unsafe.Pointer(&memory[0]))
	const untold = -int64(unix.EINTR) // the helper was killed
	for i := range out {
		out[i] = untold
	}
	steps := new([maxSteps]step)
	copy(steps[:], e.steps)
	const pidfdAt = 1024 // behind the results
	pidfd := (*int32)(unsafe.Pointer(&memory[pidfdAt]))
	if errno := forkNSHelper(steps, len(e.steps), out, pidfd); errno != 0 {
		return nil, errno
	}
	for {
		err := unix.Waitid(unix.P_PIDFD, int(*pidfd), nil, unix.WEXITED, nil)
		if !errors.Is(err, unix.EINTR) {
			break // ECHILD: the thread that reaps adopted children was faster
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

// forkNSHelper makes the process. It does not return in the child.
//
//go:norace
//go:nosplit
func forkNSHelper(steps *[maxSteps]step, n int, out *[maxSteps]int64, pidfd *int32) unix.Errno {
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
