package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Versions of Landlock.
const (
	// referABI is the first one in which a domain need not keep files from being moved to other folders (Linux 5.19).
	referABI = 2
	// truncateABI is the first one that knows truncating a file (Linux 6.2).
	truncateABI = 3
	// portsABI is the first one that knows ports of TCP (Linux 6.7).
	portsABI = 4
	// scopedABI is the first one that scopes signals and abstract sockets (Linux 6.12).
	scopedABI = 6
)

// ruleNetPort is LANDLOCK_RULE_NET_PORT, the kind of a rule about a port.
const ruleNetPort = 2

// maxLinks is how many symbolic links a path may go by, as the kernel has it.
const maxLinks = 40

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
	if len(c.Unreadable) > 0 {
		w.Unreadable = wall("wall around unreadable files", c.NoLandlock, func() error { return enterClosed(c.Unreadable) })
	}
	if c.OnePort {
		w.OnePort = wall("wall around the network", c.NoLandlock, func() error { return enterOnePort(c.Port) })
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

// enterOnePort enters a domain from which TCP connects to one port; 0: to none.
func enterOnePort(port uint16) error {
	abi, err := landlockABI()
	if err == nil && abi < portsABI {
		err = fmt.Errorf("landlock: %w: version %d knows no ports; version %d does (linux 6.7)", ErrUnsupported, abi, portsABI)
	}
	if err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_net: unix.LANDLOCK_ACCESS_NET_CONNECT_TCP}
	return enter(attr, unsafe.Offsetof(attr.Handled_access_net)+unsafe.Sizeof(attr.Handled_access_net), func(ruleset int) error {
		if port == 0 {
			return nil
		}
		rule := struct{ access, port uint64 }{attr.Handled_access_net, uint64(port)} // struct landlock_net_port_attr
		_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), ruleNetPort, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
		if errno != 0 {
			return fmt.Errorf("landlock: %w: add a rule for port %d: %w", ErrUnsupported, port, errno)
		}
		return nil
	})
}

// enterLesserDomain enters a domain of older kernels, which know none that is about no files. Any domain keeps a process
// from tracing those outside of it, and thereby from their memory and their open files. This one leaves files as they are:
// it is about moving them to other folders, and allows that everywhere. What it takes away is mounting, which no domain that
// is about files allows.
func enterLesserDomain() error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
	return enter(attr, unsafe.Sizeof(attr.Handled_access_fs), func(ruleset int) error {
		return addRule(ruleset, "/", attr.Handled_access_fs, attr.Handled_access_fs)
	})
}

// What a domain around closed files is about. Reading alone would not do: who can rename a folder on the way has the next process
// look for it elsewhere, and who can write a certificate's authority needs no key. Landlock knows moves to other folders in every
// such domain, and forbids them where no rule allows them.
const (
	closedToFiles   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	closedToFolders = closedToFiles | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// enterClosed enters a domain in which everything can be read and changed but the files and folders that are named, the symbolic
// links on the way to them, and the entries of the folders above.
func enterClosed(closed []string) error {
	if err := TraceConfineSupported(); err != nil {
		return err
	}
	abi, err := landlockABI()
	if err != nil {
		return err
	}
	var truncate uint64
	if abi >= truncateABI {
		truncate = unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	var real, apart []string
	for _, name := range closed {
		path, links, err := realPath(name)
		if err != nil {
			return err
		}
		if path == "/" || !strings.HasPrefix(path, "/") {
			return fmt.Errorf("%s cannot be closed: a file or a folder below / can be", name)
		}
		real = append(real, path)
		apart = append(append(apart, path), links...)
	}
	slices.Sort(real)
	if err := noOtherName(slices.Compact(real)); err != nil {
		return err
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: closedToFolders | truncate}
	return enter(attr, unsafe.Sizeof(attr.Handled_access_fs), func(ruleset int) error {
		return allowAround(ruleset, "/", apart, closedToFolders|truncate, closedToFiles|truncate)
	})
}

// realPath is a path without symbolic links, as the kernel has it, and the links on the way. It must be there. (path/filepath would
// have a guard initialise much more of its program first.)
func realPath(name string) (path string, links []string, err error) {
	fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", nil, fmt.Errorf("look at %s: %w", name, err)
	}
	defer unix.Close(fd)
	real, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	if err != nil {
		return "", nil, err
	}
	rest := strings.Split(name, "/")
	for len(rest) > 0 && len(links) <= maxLinks {
		next := path + "/" + rest[0]
		switch rest[0] {
		case "", ".":
			rest = rest[1:]
			continue
		case "..":
			path, rest = path[:max(strings.LastIndexByte(path, '/'), 0)], rest[1:]
			continue
		}
		rest = rest[1:]
		target, err := os.Readlink(next)
		if err != nil {
			path = next
			continue
		}
		links = append(links, next)
		if strings.HasPrefix(target, "/") {
			path = ""
		}
		rest = slices.Concat(strings.Split(target, "/"), rest)
	}
	if path != strings.TrimSuffix(real, "/") {
		return "", nil, fmt.Errorf("%s leads to %s, and to %s by its links: it changes, or a link on the way cannot be followed", name, real, path)
	}
	return real, links, nil
}

// noOtherName returns an error if a file in what is closed has a name, a hard link, outside of it: Landlock goes by names.
func noOtherName(closed []string) error {
	for try := 1; ; try++ {
		found := names{}
		for _, path := range closed {
			if slices.ContainsFunc(closed, func(c string) bool { return strings.HasPrefix(path, c+"/") }) {
				continue // its folder is closed, and would count it a second time
			}
			if err := found.walk(path); err != nil {
				return err
			}
		}
		err := found.elsewhere()
		if err == nil || try == 3 { // a file may have been renamed meanwhile, by a link and a removal
			return err
		}
	}
}

// names are the names of files that have several, by device and inode.
type names map[[2]uint64]*struct {
	path        string // one of them
	seen, links uint64
}

func (n names) walk(path string) error {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES) {
			return nil
		}
		return fmt.Errorf("look at %s: %w", path, err)
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		entries, err := os.ReadDir(path)
		if err != nil && !errors.Is(err, fs.ErrPermission) && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		for _, e := range entries {
			if err := n.walk(path + "/" + e.Name()); err != nil {
				return err
			}
		}
	case unix.S_IFREG:
		if st.Nlink == 1 {
			return nil
		}
		id := [2]uint64{st.Dev, st.Ino}
		if n[id] == nil {
			n[id] = new(struct {
				path        string
				seen, links uint64
			})
		}
		n[id].path, n[id].links = path, uint64(st.Nlink) //nolint:unconvert // it has 32 bits on arm64
		n[id].seen++
	}
	return nil
}

func (n names) elsewhere() error {
	for _, f := range n {
		if f.links > f.seen {
			return fmt.Errorf("%s has %d names (hard links), and could be read by one that is not closed: copy it to a file of its own", f.path, f.links)
		}
	}
	return nil
}

// allowAround allows everything in a folder but in what is closed. Landlock knows no denial: so each entry of the folders
// above what is closed gets a rule of its own. What cannot be looked at gets none, and stays closed.
func allowAround(ruleset int, dir string, closed []string, ofFolder, ofFile uint64) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := strings.TrimSuffix(dir, "/") + "/" + e.Name()
		switch {
		case slices.Contains(closed, path):
		case slices.ContainsFunc(closed, func(c string) bool { return strings.HasPrefix(c, path+"/") }):
			err = allowAround(ruleset, path, closed, ofFolder, ofFile)
		default:
			err = addRule(ruleset, path, ofFolder, ofFile)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// addRule adds a rule: for a folder and all below it, or for a file. A link has none of its own, and neither has what is gone.
func addRule(ruleset int, path string, ofFolder, ofFile uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	switch {
	case errors.Is(err, unix.ENOENT) || errors.Is(err, unix.EACCES):
		return nil
	case err != nil:
		return fmt.Errorf("look at %s: %w", path, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fmt.Errorf("look at %s: %w", path, err)
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: ofFile, Parent_fd: int32(fd)}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFLNK:
		return nil
	case unix.S_IFDIR:
		rule.Allowed_access = ofFolder
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return fmt.Errorf("landlock: %w: add a rule for %s: %w", ErrUnsupported, path, errno)
	}
	return nil
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
