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

// The arguments after Command of a sandbox that only tries what stands, and of the program that it starts for that.
const (
	stageTry   = "-try"
	stageTried = "-tried"
)

// longestTry is more than a trial takes on a busy machine. If a call waits for an answer that never comes, it takes
// that long.
const longestTry = 10 * time.Second

// tried is what Supported knows. A trial that came to no end is not kept.
var tried struct {
	carried bool // set before any goroutine is there
	mu      sync.Mutex
	known   bool
	err     error
}

// Carry tells that this program's main package calls Main, or MainWith, so that Supported can try. Call it from an init
// function.
func Carry() { tried.carried = true }

// Supported says why no program can be confined on this system, or in this container; nil: one can. The first call has
// this program start a sandbox that confines the program once more, which takes about 20 ms: a container's profile
// refuses calls of which nothing else can be seen. Later calls repeat the answer. A program that carries no sandbox
// (see Carry) looks only at the kernel. It is safe for concurrent use.
func Supported() error {
	if err := looksSupported(); err != nil || !tried.carried {
		return err
	}
	tried.mu.Lock()
	defer tried.mu.Unlock()
	if tried.known {
		return tried.err
	}
	var err error
	for range 2 { // somebody may have ended the first one
		if err = try(); err == nil || errors.As(err, new(refusedTrial)) {
			tried.known, tried.err = true, err
			return err
		}
	}
	if errors.Is(err, errLateTrial) {
		return err
	}
	return nil // nothing was learned. If no program can be confined, who starts one learns that
}

// errLateTrial says that a trial hangs, as a call does that nobody answers.
var errLateTrial = fmt.Errorf("%w: a sandbox that was tried did not end within %v", ErrUnsupported, longestTry)

// refusedTrial is what a trial said that came to its end.
type refusedTrial string

func (r refusedTrial) Error() string      { return string(r) }
func (refusedTrial) Is(target error) bool { return target == ErrUnsupported }

// try starts a sandbox of this program's that tries. The error is a refusedTrial, errLateTrial, or says that nothing
// was learned.
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
	late := time.AfterFunc(longestTry, func() { _ = child.Kill() })
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
		return refusedTrial(why)
	case !onTime:
		return errLateTrial
	}
	return errors.New(state.String())
}

// tryHere is the life of a sandbox that tries. It writes to its standard output why it cannot confine.
func tryHere(served bool) int {
	err := callsRefused()
	if err == nil && !served && capable() { // as a sandbox does
		err = shed([]string{stageTry})
	}
	if err == nil && unix.Access("/proc/self/exe", unix.R_OK) == nil { // nothing else is known to be here
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

// tryInside is the life of the program that is confined to try: a file is handed to it, and its socket is taken. It
// returns the number of the error that is no right answer.
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

// callsRefused names the first call that a sandbox cannot do without and that is refused: by a container's profile, as
// the kernel has them all.
func callsRefused() error {
	runtime.LockOSThread() // and never unlocked: the thread has a folder of its own then
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
		{"ptrace", func() error { // of a process that there never is
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
		{"faccessat2", func() error { // not by x/sys, which does without if it is refused
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

// orNil makes an error of a system call's number.
func orNil(errno unix.Errno) error {
	if errno == 0 {
		return nil
	}
	return errno
}
