//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// The arguments after Command of a trial sandbox, and of the program that it starts.
const (
	stageTry   = "-try"
	stageTried = "-tried"
)

// trialTimeout limits a trial. It is longer than a trial takes on a busy machine. A trial takes this long if a call is never answered.
const trialTimeout = 10 * time.Second

// tried is the state of Supported. The result of a trial that did not finish is not kept.
var tried struct {
	carried bool // set before any goroutine starts
	mu      sync.Mutex
	known   bool
	err     error
}

// Carry records that this program's main package calls Main or MainWith, so that Supported can make a trial. Call it from an init
// function.
func Carry() { tried.carried = true }

// Supported returns why programs cannot be confined on this system, or in this container; nil: they can. The first call starts a
// sandbox of this program that confines the program once more, which takes about 20 ms: only a trial shows which calls a container's
// profile rejects. Later calls return the same result. A program without a sandbox (see Carry) checks only the kernel. Supported is
// safe for concurrent use.
func Supported() error {
	if err := kernelSupported(); err != nil || !tried.carried {
		return err
	}
	tried.mu.Lock()
	defer tried.mu.Unlock()
	if tried.known {
		return tried.err
	}
	var err error
	for range 2 { // another process may have killed the first one
		if err = try(); err == nil || errors.As(err, new(rejectedTrial)) {
			tried.known, tried.err = true, err
			return err
		}
	}
	if errors.Is(err, errLateTrial) {
		return err
	}
	return nil // the trial had no result. If programs cannot be confined, starting one returns the error
}

// errLateTrial says that a trial hangs, because a call was not answered.
var errLateTrial = fmt.Errorf("%w: a sandbox that was tried did not end within %v", ErrUnsupported, trialTimeout)

// rejectedTrial is the error that a finished trial reported.
type rejectedTrial string

func (r rejectedTrial) Error() string      { return string(r) }
func (rejectedTrial) Is(target error) bool { return target == ErrUnsupported }

// try starts a trial sandbox of this program. The error is a rejectedTrial, errLateTrial, or says that the trial had no result.
func try() error {
	self, err := proc.OwnProgram()
	if err != nil {
		return err
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	said, theirs, err := os.Pipe()
	if err != nil {
		return err
	}
	defer said.Close()
	var child *os.Process
	err = proc.EnterChild(func() (int, error) {
		attr := &os.ProcAttr{Env: []string{}, Files: []*os.File{null, theirs, null}, Sys: &syscall.SysProcAttr{Setsid: true}}
		if child, err = os.StartProcess(self, []string{os.Args[0], Command, stageTry}, attr); err != nil { //nolint:gosec // G702: itself
			return 0, err
		}
		return child.Pid, nil
	})
	_ = theirs.Close()
	if err != nil {
		return err
	}
	defer proc.LeaveChild(child.Pid)
	late := time.AfterFunc(trialTimeout, func() { _ = child.Kill() })
	words, _ := io.ReadAll(io.LimitReader(said, page))
	state, err := child.Wait()
	onTime := late.Stop()
	why := strings.TrimSpace(string(words))
	switch {
	case err != nil:
		return err
	case state.Success():
		return nil
	case why != "":
		return rejectedTrial(why)
	case !onTime:
		return errLateTrial
	}
	return errors.New(state.String())
}

// tryHere runs a trial sandbox. It writes to its standard output why it cannot confine.
func tryHere(served bool) int {
	err := firstRejectedCall()
	if err == nil && !served && capable() { // as a sandbox does
		err = dropCapabilities([]string{stageTry})
	}
	if err == nil && unix.Access("/proc/self/exe", unix.R_OK) == nil { // no other program is known to exist here
		c := command{program: "/proc/self/exe", args: []string{os.Args[0], Command, stageTried}, env: []string{}}
		var status int
		if status, err = serve(Options{Environ: c.env, Timeout: time.Second}, Lists{}, c); err != nil && !errors.Is(err, ErrUnsupported) {
			err = fmt.Errorf("%w: confine a program: %w", ErrUnsupported, err)
		} else if err == nil && status != 0 {
			err = fmt.Errorf("%w: a program was confined, and what it does was not answered: %w", ErrUnsupported, unix.Errno(status))
		}
	}
	if err != nil {
		_, _ = unix.Write(unix.Stdout, []byte(err.Error()))
		return failed
	}
	return 0
}

// tryInside runs the confined program of a trial: it opens a file, which is handed over, and connects a socket. It returns the number
// of an unexpected error, or 0.
func tryInside() int {
	fd, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		unix.Close(fd)
		if fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0); err == nil {
			if err = unix.Connect(fd, &unix.SockaddrUnix{Name: "/proc/self/none"}); errors.Is(err, unix.ENOENT) {
				err = nil
			}
		}
	}
	if errno := unix.Errno(0); errors.As(err, &errno) {
		return int(errno)
	}
	return 0
}

// firstRejectedCall returns an error for the first rejected system call that a sandbox needs. A container's profile rejects it, because
// the kernel has all of them.
func firstRejectedCall() error {
	runtime.LockOSThread() // and never unlocked: the thread has its own working directory then
	pid := os.Getpid()
	var pidfd int
	var b [1]byte
	for _, c := range []struct {
		name string
		make func() error
	}{
		{"process_vm_readv", func() error {
			other := [1]byte{}
			_, err := unix.ProcessVMReadv(pid, []unix.Iovec{{Base: &b[0], Len: 1}}, []unix.RemoteIovec{{Base: uintptr(unsafe.Pointer(&other[0])), Len: 1}}, 0)
			return err
		}},
		{"ptrace", func() error { // of a process that never exists
			_, _, errno := unix.Syscall6(unix.SYS_PTRACE, unix.PTRACE_SEIZE, 0, 0, 0, 0, 0)
			if errno == unix.ESRCH {
				errno = 0
			}
			return orNil(errno)
		}},
		{"pidfd_open", func() (err error) { pidfd, err = unix.PidfdOpen(pid, 0); return err }},
		{"pidfd_getfd", func() error {
			fd, err := unix.PidfdGetfd(pidfd, pidfd, 0)
			if err == nil {
				unix.Close(fd)
			}
			return err
		}},
		{"openat2", func() error {
			fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: held})
			if err == nil {
				unix.Close(fd)
			}
			return err
		}},
		{"faccessat2", func() error { // not by x/sys, which falls back to other calls
			_, _, errno := unix.Syscall6(unix.SYS_FACCESSAT2, uintptr(pidfd), uintptr(unsafe.Pointer(&[1]byte{})), unix.F_OK, unix.AT_EMPTY_PATH, 0, 0)
			return orNil(errno)
		}},
		{"unshare (CLONE_FS)", func() error { return unix.Unshare(unix.CLONE_FS) }},
	} {
		if err := c.make(); err != nil {
			return fmt.Errorf("%w: the system call %s: %w: a container's profile has to allow it", ErrUnsupported, c.name, err)
		}
	}
	return nil
}

// orNil converts a system call's error number to an error.
func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
