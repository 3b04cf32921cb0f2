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
	// referABI is the first version in which a domain can allow moving files to other folders (Linux 5.19).
	referABI = 2
	// truncateABI is the first version that controls truncation (Linux 6.2).
	truncateABI = 3
	// portsABI is the first version that controls TCP ports (Linux 6.7).
	portsABI = 4
	// scopedABI is the first version that scopes signals and abstract sockets (Linux 6.12).
	scopedABI = 6
)

// ruleNetPort is LANDLOCK_RULE_NET_PORT, the type of a rule for a port.
const ruleNetPort = 2

// maxLinks limits the symbolic links in a path, as the kernel does.
const maxLinks = 40

// Confine calls start on an operating system thread with the restrictions that c selects, as far as this system
// supports them. It passes the applied restrictions to start. Processes that start forks, with os/exec or
// os.StartProcess, inherit the restrictions and cannot remove them:
//
//   - A separate Landlock domain: a process can signal and trace only its descendants and processes started with it,
//     cannot read the memory or the open files of any process outside, root or not, and cannot connect to abstract unix
//     sockets made outside. (A process with CAP_PERFMON can still read every environment in /proc.) Kernels from Linux
//     5.19 to 6.11 have a weaker domain, without the scopes of signals and sockets.
//   - A seccomp filter, which also marks the process: it cannot be removed, and Filters counts it.
//   - No capabilities, even as root, except those of c.Keep.
//
// Files, pathname sockets and the network are not restricted, except by Unreadable and OnePort. Confine sets
// no_new_privs if a restriction needs it; sudo and similar programs then do not work.
//
// The restrictions apply only to the thread, which is discarded when start returns: the rest of the process is not
// restricted. start must start processes itself, not in another goroutine. A parent-death signal
// (SysProcAttr.Pdeathsig) is bound to that thread: if one is set, start must not return until the process has ended.
//
// start may also replace this process by another program with syscall.Exec: the thread then becomes the process, with
// its restrictions.
//
// Confine waits for start, which is always called, and returns its error.
func Confine(c Confinement, start func(Restrictions) error) error {
	result := make(chan error, 1)
	go confineThread(c, start, result)
	return <-result
}

// ConfineSupported returns why this system has no Landlock domain that scopes signals and sockets, without trying it;
// nil: it has one.
func ConfineSupported() error {
	abi, err := landlockABI()
	if err == nil && abi < scopedABI {
		err = fmt.Errorf("landlock: %w: version %d cannot scope signals; version %d can (linux 6.12)", ErrUnsupported, abi, scopedABI)
	}
	return err
}

// TraceConfineSupported returns why this system has no Landlock domain that keeps processes from tracing others and
// from accessing their open files; nil: it has one. If only ConfineSupported returns an error, Confine uses such a
// weaker domain.
func TraceConfineSupported() error {
	abi, err := landlockABI()
	if err == nil && abi < referABI {
		err = fmt.Errorf("landlock: %w: with version %d, no file could be moved to another folder; version %d can (linux 5.19)",
			ErrUnsupported, abi, referABI)
	}
	return err
}

// landlockABI returns the version of Landlock in this kernel. It is a variable for tests.
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

func confineThread(c Confinement, start func(Restrictions) error, result chan<- error) {
	runtime.LockOSThread()
	if unix.Gettid() == unix.Getpid() {
		// The first thread cannot be discarded, and signals and /proc refer to it. It waits while another thread does
		// the work.
		defer runtime.UnlockOSThread()
		inner := make(chan error, 1)
		go confineThread(c, start, inner)
		result <- <-inner
		return
	}
	// From here on no path unlocks the thread: the runtime ends a thread whose goroutine exits locked.
	result <- start(c.apply())
}

// apply applies the restrictions to the calling thread. The order matters: the filter needs no_new_privs, the bounding
// set needs CAP_SETPCAP, and Landlock as root needs nothing else while capabilities are left.
func (c Confinement) apply() (w Restrictions) {
	restrict := func(name string, off bool, put func() error) (applied bool) {
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
		w.Unreadable = restrict("wall around unreadable files", c.NoLandlock, func() error { return enterClosed(c.Unreadable) })
	}
	if c.OnePort {
		w.OnePort = restrict("wall around the network", c.NoLandlock, func() error { return enterOnePort(c.Port) })
	}
	w.Landlock = restrict("Landlock domain", c.NoLandlock, enterDomain)
	w.Seccomp = restrict("seccomp filter", c.NoSeccomp, installFilter)
	w.Capabilities = restrict("loss of capabilities", false, c.dropCapabilities)
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
		// The size ends after Scoped: kernels accept smaller structures, and later fields are not set.
		unsafe.Offsetof(unix.LandlockRulesetAttr{}.Scoped)+unsafe.Sizeof(uint64(0)), func(int) error { return nil })
}

// enterOnePort enters a domain in which TCP connects only to one port; 0: to no port.
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

// enterLesserDomain enters a domain on older kernels, whose domains always restrict files. Any domain keeps a process
// from tracing processes outside of it, and so from their memory and open files. This one leaves files unrestricted: it
// handles only moves to other folders, and allows them everywhere. It also forbids mounting, as every domain that
// handles files does.
func enterLesserDomain() error {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: unix.LANDLOCK_ACCESS_FS_REFER}
	return enter(attr, unsafe.Sizeof(attr.Handled_access_fs), func(ruleset int) error {
		return addRule(ruleset, "/", attr.Handled_access_fs, attr.Handled_access_fs)
	})
}

// Accesses that a domain around closed files handles. Handling only reads would not suffice: a process that can rename
// a folder on the way makes the next process use another file, and a process that can replace a certificate authority
// needs no key. Every such domain handles moves to other folders, and forbids them unless a rule allows them.
const (
	closedToFiles   = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
	closedToFolders = closedToFiles | unix.LANDLOCK_ACCESS_FS_REFER | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK | unix.LANDLOCK_ACCESS_FS_MAKE_SYM
)

// enterClosed enters a domain in which everything can be read and changed except the named files and folders, the
// symbolic links on the way to them, and the entries of the folders above.
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

// realPath returns a path without symbolic links, as the kernel resolves it, and the links on the way. The path must
// exist. (With path/filepath, a guard would initialise much more of its program first.)
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

// noOtherName returns an error if a closed file has a hard link outside of the closed paths: Landlock restricts names,
// not inodes.
func noOtherName(closed []string) error {
	for try := 1; ; try++ {
		found := names{}
		for _, path := range closed {
			if slices.ContainsFunc(closed, func(c string) bool { return strings.HasPrefix(path, c+"/") }) {
				continue // its folder is closed, and would count it twice
			}
			if err := found.walk(path); err != nil {
				return err
			}
		}
		err := found.elsewhere()
		if err == nil || try == 3 { // a file may have been renamed meanwhile by linking and unlinking
			return err
		}
	}
}

// names are the files with several names, by device and inode.
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

// allowAround allows everything in a folder except the closed paths. Landlock has no deny rules, so each other entry of
// the folders above a closed path gets its own allow rule. Entries that cannot be read get none, and stay closed.
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

// addRule adds a rule for a file, or for a folder and everything below it. It ignores symbolic links and paths that are
// gone.
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

// enter enters a domain with the rules that add adds. size is the number of bytes of attr that the kernel reads.
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

// noNewPrivs keeps programs from getting privileges that their caller lacks: sudo does not work afterwards.
func noNewPrivs() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}
