package proc

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Versions of Landlock.
const (
	// referABI is the first one in which a domain need not keep files from being moved to other folders (Linux 5.19).
	referABI = 2
	// scopedABI is the first one that scopes signals and abstract sockets (Linux 6.12).
	scopedABI = 6
)

// Confine calls start on an operating system thread behind the walls that c asks for, as far as they can be had here;
// start is told which stand. What start forks, with os/exec or os.StartProcess, inherits them and cannot shed them:
//
//   - A Landlock domain of its own: a process can signal and trace only its descendants and those that were started
//     with it, cannot look into the memory or the open files of any process outside, root or not, and cannot connect to
//     abstract unix sockets made outside. (What stays: a process with CAP_PERFMON reads every environment in /proc.)
//     On kernels before Linux 6.12 there is a lesser one from 5.19 on: without the scopes of signals and sockets.
//   - A seccomp filter, which also marks it: no process gets rid of one, and Filters counts them.
//   - No capabilities, also as root, but for those of c.Keep.
//
// Files, pathname sockets and the network are as before. Where a wall asks for it, no_new_privs is set, so that sudo and
// the like do not work behind it.
//
// The walls are the thread's alone, and the thread is discarded when start returns: the rest of the process stays
// outside. start must start processes itself, not in another goroutine. A parent-death signal
// (SysProcAttr.Pdeathsig) is bound to that thread: where one is set, start has to stay until the process has ended.
//
// start may also execute another program in place of this process, with syscall.Exec: the thread becomes the process then,
// behind its walls.
//
// Confine waits for start, which is always called, and returns its error.
func Confine(c Confinement, start func(Walls) error) error {
	result := make(chan error, 1)
	go confineThread(c, start, result)
	return <-result
}

// ConfineSupported says, without trying it, why there can be no Landlock domain here that scopes signals and sockets; nil:
// there can.
func ConfineSupported() error {
	abi, err := landlockABI()
	if err == nil && abi < scopedABI {
		err = fmt.Errorf("landlock: %w: version %d cannot scope signals; version %d can (linux 6.12)", ErrUnsupported, abi, scopedABI)
	}
	return err
}

// TraceConfineSupported says why there can be no Landlock domain here that keeps processes from tracing others, and from
// their open files; nil: there can. Where ConfineSupported says no, Confine takes such a lesser one.
func TraceConfineSupported() error {
	abi, err := landlockABI()
	if err == nil && abi < referABI {
		err = fmt.Errorf("landlock: %w: with version %d, no file could be moved to another folder; version %d can (linux 5.19)",
			ErrUnsupported, abi, referABI)
	}
	return err
}

// landlockABI is the version of Landlock that this kernel has. A variable, for tests.
var landlockABI = func() (int, error) {
	abi, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errno == unix.ENOSYS:
		return 0, fmt.Errorf("landlock: %w: this kernel was built without it", ErrUnsupported)
	case errno == unix.EOPNOTSUPP:
		return 0, fmt.Errorf("landlock: %w: it is not enabled at boot (lsm=landlock)", ErrUnsupported)
	case errno != 0:
		return 0, fmt.Errorf("landlock: %w: ask for its version: %w", ErrUnsupported, errno)
	}
	return int(abi), nil
}

func confineThread(c Confinement, start func(Walls) error, result chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread cannot be discarded, and it is the one that signals and /proc go by. Hold it while another
		// thread does the work.
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go confineThread(c, start, inner)
		result <- <-inner
		return
	}
	// From here on no path unlocks: the runtime ends a thread whose goroutine exits locked.
	result <- start(c.raise())
}

// raise puts the walls up around the calling thread. The order matters: the filter needs no_new_privs, the bounding set
// needs CAP_SETPCAP, and Landlock as root needs nothing else as long as capabilities are there.
func (c Confinement) raise() (w Walls) {
	wall := func(name string, off bool, put func() error) (stands bool) {
		if off {
			w.Notes = append(w.Notes, "no "+name+": switched off by configuration")
			return false
		}
		if err := put(); err != nil {
			w.Notes = append(w.Notes, "no "+name+": "+err.Error())
			return false
		}
		return true
	}
	w.Landlock = wall("Landlock domain", c.NoLandlock, enterDomain)
	w.Seccomp = wall("seccomp filter", c.NoSeccomp, installFilter)
	w.Capabilities = wall("loss of capabilities", false, c.dropCapabilities)
	return w
}

func enterDomain() error {
	if err := ConfineSupported(); err != nil {
		if TraceConfineSupported() != nil || enterLesserDomain() != nil {
			return err
		}
		return fmt.Errorf("%w; a lesser domain keeps it from tracing others and from their open files, and from mounting", err)
	}
	return enter(unix.LandlockRulesetAttr{Scoped: unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL},
		// The size ends after Scoped: kernels refuse no smaller structure, and we set nothing that came later.
		unsafe.Offsetof(unix.LandlockRulesetAttr{}.Scoped)+unsafe.Sizeof(uint64(0)), func(int) error { return nil })
}

// enterLesserDomain enters a domain of older kernels, which know none that is about no files. Any domain keeps a process
// from tracing those outside of it, and thereby from their memory and their open files. This one leaves files as they are:
// it is about moving them to other folders, and allows that everywhere. What it takes away is mounting, which no domain that
// is about files allows.
func enterLesserDomain() error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
	return enter(attr, unsafe.Sizeof(attr.Handled_access_fs), func(ruleset int) error {
		root, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(root)
		rule := unix.LandlockPathBeneathAttr{Allowed_access: attr.Handled_access_fs, Parent_fd: int32(root)}
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
			uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("landlock: %w: add a rule: %w", ErrUnsupported, errno)
		}
		return nil
	})
}

// enter enters a domain with the rules that add adds. size is how much of attr the kernel needs to know.
func enter(attr unix.LandlockRulesetAttr, size uintptr, add func(ruleset int) error) error {
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w: create a ruleset: %w", ErrUnsupported, errno)
	}
	defer unix.Close(int(fd))
	if err := add(int(fd)); err != nil {
		return err
	}
	err := restrictSelf(int(fd))
	if errors.Is(err, unix.EPERM) {
		if err := noNewPrivs(); err != nil {
			return fmt.Errorf("landlock: %w: %w", ErrUnsupported, err)
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

// noNewPrivs keeps programs from getting privileges that their caller does not have: sudo does not work from here on.
func noNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}
