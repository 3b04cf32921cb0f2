package proc

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// scopedABI is the first version of Landlock that scopes signals and abstract sockets (Linux 6.12).
const scopedABI = 6

// Confine calls start on an operating system thread that is in a Landlock domain of its own. What start forks, with
// os/exec or os.StartProcess, inherits the domain: it and its descendants can signal and trace only one another, cannot
// look into the memory or the open files of any process outside, root or not, and cannot connect to abstract unix
// sockets made outside. (What stays: a process with CAP_PERFMON, as root has it, reads every environment in /proc.)
// Files, pathname sockets and the network are as before. Without CAP_SYS_ADMIN the kernel asks for no_new_privs, so
// that sudo and the like do not work inside.
//
// The domain is the thread's alone, and the thread is discarded when start returns: the rest of the process stays
// outside. start must start processes itself, not in another goroutine. A parent-death signal
// (SysProcAttr.Pdeathsig) is bound to that thread: where one is set, start has to stay until the process has ended.
//
// Confine waits for start and returns its error. An error that wraps ErrUnsupported says why there is no domain;
// start was not called then.
func Confine(start func() error) error {
	if err := ConfineSupported(); err != nil {
		return err
	}
	result := make(chan error, 1)
	go confineThread(start, result)
	return <-result
}

// ConfineSupported says, without trying it, why Confine cannot work here; nil: it can.
func ConfineSupported() error {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS:
		return fmt.Errorf("landlock: %w: this kernel was built without it", ErrUnsupported)
	case errno == unix.EOPNOTSUPP:
		return fmt.Errorf("landlock: %w: it is not enabled at boot (lsm=landlock)", ErrUnsupported)
	case errno != 0:
		return fmt.Errorf("landlock: %w: ask for its version: %w", ErrUnsupported, errno)
	case abi < scopedABI:
		return fmt.Errorf("landlock: %w: version %d cannot scope signals; version %d can (linux 6.12)", ErrUnsupported, abi, scopedABI)
	}
	return nil
}

func confineThread(start func() error, result chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread cannot be discarded, and it is the one that signals and /proc go by. Hold it while another
		// thread does the work.
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go confineThread(start, inner)
		result <- <-inner
		return
	}
	// From here on no path unlocks: the runtime ends a thread whose goroutine exits locked.
	if err := enterDomain(); err != nil {
		result <- err
		return
	}
	result <- start()
}

func enterDomain() error {
	attr := unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL}
	// The size ends after Scoped: kernels refuse no smaller structure, and we set nothing that came later.
	size := unsafe.Offsetof(attr.Scoped) + unsafe.Sizeof(attr.Scoped)
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w: create a ruleset: %w", ErrUnsupported, errno)
	}
	defer unix.Close(int(fd))
	err := restrictSelf(int(fd))
	if errors.Is(err, unix.EPERM) {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("landlock: %w: set no_new_privs: %w", ErrUnsupported, err)
		}
		err = restrictSelf(int(fd))
	}
	if err != nil {
		return fmt.Errorf("landlock: %w: enter a domain: %w", ErrUnsupported, err)
	}
	return nil
}

func restrictSelf(ruleset int) error {
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}
