//go:build amd64 || arm64

package sandbox

import (
	"slices"
	"strconv"
	"unsafe"

	"golang.org/x/sys/unix"
)

// act carries out a call by its number. It reads each argument once.
func (c *call) act() error {
	const cwd = unix.AT_FDCWD
	a := c.data.args
	noFollow := func(n int) bool { return a[n]&unix.AT_SYMLINK_NOFOLLOW == 0 }
	switch c.data.number {
	case sysOpen:
		return c.open(cwd, 0, c.arg(1), uint32(a[2]))
	case unix.SYS_OPENAT:
		return c.open(c.arg(0), 1, c.arg(2), uint32(a[3]))
	case sysCreat:
		return c.open(cwd, 0, unix.O_CREAT|unix.O_WRONLY|unix.O_TRUNC, uint32(a[1]))
	case unix.SYS_EXECVE:
		return c.execute(cwd, 0, 1, 2, 0)
	case unix.SYS_EXECVEAT:
		return c.execute(c.arg(0), 1, 2, 3, c.arg(4))
	case sysUnlink:
		return c.unlink(cwd, 0, 0)
	case sysRmdir:
		return c.unlink(cwd, 0, unix.AT_REMOVEDIR)
	case unix.SYS_UNLINKAT:
		return c.unlink(c.arg(0), 1, c.arg(2))
	case sysMkdir:
		return c.mkdir(cwd, 0, 1)
	case unix.SYS_MKDIRAT:
		return c.mkdir(c.arg(0), 1, 2)
	case sysMknod:
		return c.mknod(cwd, 0, uint32(a[1]), int(a[2]))
	case unix.SYS_MKNODAT:
		return c.mknod(c.arg(0), 1, uint32(a[2]), int(a[3]))
	case sysSymlink:
		return c.symlink(cwd, 1)
	case unix.SYS_SYMLINKAT:
		return c.symlink(c.arg(1), 2)
	case sysRename:
		return c.rename(cwd, 0, cwd, 1, 0)
	case unix.SYS_RENAMEAT:
		return c.rename(c.arg(0), 1, c.arg(2), 3, 0)
	case unix.SYS_RENAMEAT2:
		return c.rename(c.arg(0), 1, c.arg(2), 3, uint(a[4]))
	case sysLink:
		return c.link(cwd, 0, cwd, 1, 0)
	case unix.SYS_LINKAT:
		return c.link(c.arg(0), 1, c.arg(2), 3, c.arg(4))
	case sysChmod:
		return c.file(cwd, 0, true, c.chmod(1))
	case unix.SYS_FCHMODAT:
		return c.file(c.arg(0), 1, true, c.chmod(2))
	case unix.SYS_FCHMODAT2:
		return c.file(c.arg(0), 1, noFollow(3), c.chmod(2))
	case unix.SYS_FCHMOD:
		return c.descriptor(0, c.chmod(1))
	case sysChown:
		return c.file(cwd, 0, true, c.chown(1))
	case sysLchown:
		return c.file(cwd, 0, false, c.chown(1))
	case unix.SYS_FCHOWNAT:
		return c.file(c.arg(0), 1, noFollow(4), c.chown(2))
	case unix.SYS_FCHOWN:
		return c.descriptor(0, c.chown(1))
	case unix.SYS_TRUNCATE:
		return c.file(cwd, 0, true, func(fd int) error { return unix.Truncate(descriptor(fd), int64(a[1])) })
	case sysUtime, sysUtimes, sysFutimesat, unix.SYS_UTIMENSAT:
		return c.times()
	case unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR:
		return c.attribute()
	case unix.SYS_BIND:
		return c.bind()
	case unix.SYS_CONNECT:
		return c.connect()
	case unix.SYS_SENDTO:
		return c.sendTo()
	case unix.SYS_OPENAT2: // with Observe only
		var how unix.OpenHow
		if err := c.readAll(a[2], unsafe.Slice((*byte)(unsafe.Pointer(&how)), unix.SizeofOpenHow)); err != nil {
			return err
		}
		if how.Flags&(writing) == 0 && !c.options.Reads || how.Flags&unix.O_PATH != 0 {
			return nil
		}
		return c.open(c.arg(0), 1, int(how.Flags), uint32(how.Mode))
	case unix.SYS_CLONE, unix.SYS_UNSHARE:
		return c.newNamespace()
	case unix.SYS_SETNS:
		return c.refuse("another process's namespace", unix.EPERM)
	case unix.SYS_MOUNT:
		return c.mount()
	case unix.SYS_UMOUNT2:
		return c.unmount()
	case unix.SYS_PIVOT_ROOT:
		return c.pivotRoot()
	case unix.SYS_LANDLOCK_CREATE_RULESET, unix.SYS_LANDLOCK_ADD_RULE, unix.SYS_LANDLOCK_RESTRICT_SELF:
		return c.landlock()
	}
	if slices.Contains(namespaceCalls, uint32(c.data.number)) {
		return c.refuse("another root folder, or a mount", unix.EPERM)
	}
	return unix.ENOSYS // the filter notifies of no other calls
}

// leaves says what the call leaves at the path that it changes.
func (c *call) leaves() Leaves {
	switch c.data.number {
	case sysMkdir, unix.SYS_MKDIRAT:
		return LeavesFolder
	case sysSymlink, unix.SYS_SYMLINKAT:
		return LeavesLink
	case sysUnlink, sysRmdir, unix.SYS_UNLINKAT:
		return LeavesNothing
	case sysChmod, unix.SYS_FCHMODAT, unix.SYS_FCHMODAT2, unix.SYS_FCHMOD,
		sysChown, sysLchown, unix.SYS_FCHOWNAT, unix.SYS_FCHOWN,
		sysUtime, sysUtimes, sysFutimesat, unix.SYS_UTIMENSAT,
		unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR, unix.SYS_REMOVEXATTR, unix.SYS_LREMOVEXATTR, unix.SYS_FREMOVEXATTR:
		return LeavesContent
	}
	return LeavesAny
}

// changeOne changes one name.
func (c *call) changeOne(dirfd, arg int, follow bool, change func(place) error) error {
	return c.at(dirfd, arg, follow, func(p place) error {
		if err := c.mayWrite(Write, p); err != nil {
			return err
		}
		return c.carryOutMake(p, func() error { return change(p) })
	})
}

// at runs work on the place that a path argument names. It does not ask the decider.
func (c *call) at(dirfd, arg int, follow bool, work func(place) error) error {
	name, err := c.name(arg)
	if err != nil {
		return err
	}
	p, err := c.find(dirfd, name, follow)
	if err != nil {
		return err
	}
	defer p.close()
	return work(p)
}

// file changes an existing file. change gets an O_PATH descriptor. An empty name means dirfd itself.
func (c *call) file(dirfd, arg int, follow bool, change func(fd int) error) error {
	name, err := c.name(arg)
	if err != nil {
		return err
	}
	if name == "" && dirfd != unix.AT_FDCWD {
		name, dirfd = c.proc("fd/"+strconv.Itoa(dirfd)), unix.AT_FDCWD
		follow = true
	}
	return c.path(dirfd, name, follow, change)
}

func (c *call) path(dirfd int, name string, follow bool, change func(fd int) error) error {
	p, err := c.find(dirfd, name, follow)
	if err != nil {
		return err
	}
	defer p.close()
	if c.setsPrivileges(p) {
		return c.refusePrivileges()
	}
	if err := c.mayWrite(Write, p); err != nil {
		return err
	}
	if p.base == "" {
		return c.runInDomain(func() error { return change(p.dir) })
	}
	fd, err := p.hold()
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if follow && st.Mode&unix.S_IFMT == unix.S_IFLNK {
		return unix.EAGAIN // it was no symbolic link before
	}
	return c.runInDomain(func() error { return change(fd) })
}

// descriptor changes a file that the process has open, perhaps only for reading.
func (c *call) descriptor(arg int, change func(fd int) error) error {
	return c.path(unix.AT_FDCWD, c.proc("fd/"+strconv.Itoa(c.arg(arg))), true, change)
}

// mkdir asks the decider only about folders that do not exist yet: many programs call mkdir to make sure that a folder exists, which
// changes nothing.
func (c *call) mkdir(dirfd, arg, mode int) error {
	return c.at(dirfd, arg, false, func(p place) error {
		if _, err := p.stat(); p.base == "" || err == nil {
			return unix.EEXIST
		}
		make := func() error {
			if err := c.setUmask(); err != nil {
				return err
			}
			return unix.Mkdirat(p.dir, p.base, uint32(c.data.args[mode]))
		}
		if c.mountPoint(p) {
			return c.makeMountPoint(p, make)
		}
		if err := c.mayWrite(Write, p); err != nil {
			return err
		}
		return c.carryOutMake(p, make)
	})
}

func (c *call) mknod(dirfd, arg int, mode uint32, device int) error {
	if mode&setID != 0 {
		return c.refusePrivileges()
	}
	return c.changeOne(dirfd, arg, false, func(p place) error {
		if err := c.setUmask(); err != nil {
			return err
		}
		return unix.Mknodat(p.dir, p.name(), mode, device)
	})
}

func (c *call) symlink(dirfd, arg int) error {
	target, err := c.name(0)
	if err != nil {
		return err
	}
	return c.changeOne(dirfd, arg, false, func(p place) error { return unix.Symlinkat(target, p.dir, p.name()) })
}

// rename asks about both names before it changes either.
func (c *call) rename(fromDir, from, toDir, to int, flags uint) error {
	return c.changeTwo(Move, fromDir, from, toDir, to, false, flags&unix.RENAME_EXCHANGE != 0, func(p, q place) error {
		return unix.Renameat2(p.dir, p.name(), q.dir, q.name(), flags)
	})
}

// link also asks about the existing file, because it can be changed by its new name.
func (c *call) link(fromDir, from, toDir, to, flags int) error {
	if flags&unix.AT_EMPTY_PATH != 0 {
		return unix.ENOENT // as for processes without a capability
	}
	return c.changeTwo(Write, fromDir, from, toDir, to, flags&unix.AT_SYMLINK_FOLLOW != 0, false, func(p, q place) error {
		if p.base == "" { // an open file without a name
			return unix.Linkat(unix.AT_FDCWD, p.link(), q.dir, q.name(), unix.AT_SYMLINK_FOLLOW)
		}
		return unix.Linkat(p.dir, p.base, q.dir, q.name(), 0)
	})
}

// changeTwo changes two names. exchange: the file of the second name gets the first name.
func (c *call) changeTwo(op Operation, fromDir, from, toDir, to int, follow, exchange bool, change func(p, q place) error) error {
	first, err := c.name(from)
	if err != nil {
		return err
	}
	second, err := c.name(to)
	if err != nil {
		return err
	}
	p, err := c.find(fromDir, first, follow)
	if err != nil {
		return err
	}
	defer p.close()
	q, err := c.find(toDir, second, false)
	if err != nil {
		return err
	}
	defer q.close()
	places := []place{q, p}
	if op == Write && unnamed(p) { // a temporary file that gets its first name
		places = places[:1]
	}
	if slices.ContainsFunc(places, func(p place) bool { return p.sealed }) {
		return unix.EACCES
	}
	events := c.changes(op, places...)
	comes, leaves := p.kind(), q.kind()
	if op == Move {
		describeLink(events, q, comes)
		if exchange {
			describeLink(events, p, leaves)
		}
	}
	var judged *source
	if op == Move && !exchange {
		judged = c.sourceOf(p, q)
		defer judged.close()
		judged.describe(events, q)
	}
	if c.options.Reads { // a process that may not read a file must not read it by another name
		events = append(events, c.changes(Read, p)...)
		if exchange {
			events = append(events, c.changes(Read, q)...)
		}
	}
	if op == Write {
		for i := range events {
			if slices.Contains(p.paths(), events[i].Path) && events[i].Operation == Write {
				events[i].Leaves = LeavesLinked
			}
		}
		if err := c.allowed(events...); err != nil {
			return err
		}
		return c.carryOutMake(q, func() error { return change(p, q) })
	}
	v := c.moves.begin(append(p.paths(), q.paths()...), c.since)
	defer c.moves.end(v)
	if err := c.allowed(events...); err != nil {
		return err
	}
	folder := p.isFolder() || q.isFolder()
	if !c.moves.carry(v, folder) {
		return errMoved
	}
	err = c.runInDomain(func() error {
		if judged != nil {
			return judged.place(p, q, change)
		}
		return change(p, q)
	})
	if err != nil || judged != nil {
		return err
	}
	becameLink := func(at place, kind uint32) bool { return kind != unix.S_IFLNK && at.kind() == unix.S_IFLNK }
	if becameLink(q, comes) || exchange && becameLink(p, leaves) { // a link had the name meanwhile, and was not decided on
		_ = c.runInDomain(func() error { return change(q, p) })
		return errMoved
	}
	if p.hasMoved() || q.hasMoved() {
		_ = c.runInDomain(func() error { return change(q, p) })
		return errMoved
	}
	// A process outside of this sandbox may have made a name in the folder after the decision.
	if !folder && !c.rechecks(p) && !c.rechecks(q) {
		return nil
	}
	return c.recheck(c.changes(Move, places...), func() error { return change(q, p) })
}

// describeLink says of the events of a name that it becomes a symbolic link, if a file of that kind gets the name.
func describeLink(events []Event, at place, kind uint32) {
	for i := range events {
		if kind == unix.S_IFLNK && slices.Contains(at.paths(), events[i].Path) {
			events[i].Leaves = LeavesLink
		}
	}
}

// kind returns the type of the file at a place, from its mode; 0: there is none.
func (p place) kind() uint32 {
	st, err := p.stat()
	if err != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}

// chmod returns a function that sets the mode of a file. It tests the file again (setsPrivileges), because another file
// can have the name by then.
func (c *call) chmod(arg int) func(int) error {
	mode := uint32(c.data.args[arg]) & 0o7777
	return func(fd int) error {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		if givesPrivileges(mode, st) {
			return unix.EPERM
		}
		return unix.Chmod(descriptor(fd), mode)
	}
}

func (c *call) chown(user int) func(int) error {
	return func(fd int) error {
		return unix.Fchownat(fd, "", c.arg(user), c.arg(user+1), unix.AT_EMPTY_PATH)
	}
}

// times sets the times of a file, for each of the four calls that set times.
func (c *call) times() error {
	a := c.data.args
	dirfd, name, at, follow := unix.AT_FDCWD, 0, a[1], true
	if n := c.data.number; n == sysFutimesat || n == unix.SYS_UTIMENSAT {
		dirfd, name, at = c.arg(0), 1, a[2]
		follow = n == sysFutimesat || a[3]&unix.AT_SYMLINK_NOFOLLOW == 0
	}
	var raw [4]int64
	size := 32
	if c.data.number == sysUtime {
		size = 16
	}
	if at != 0 {
		if err := c.readAll(at, unsafe.Slice((*byte)(unsafe.Pointer(&raw)), size)); err != nil {
			return err
		}
	}
	ts := []unix.Timespec{{Sec: raw[0], Nsec: raw[1]}, {Sec: raw[2], Nsec: raw[3]}}
	switch {
	case at == 0:
		ts = []unix.Timespec{{Nsec: unix.UTIME_NOW}, {Nsec: unix.UTIME_NOW}}
	case c.data.number == sysUtime:
		ts = []unix.Timespec{{Sec: raw[0]}, {Sec: raw[1]}}
	case c.data.number != unix.SYS_UTIMENSAT: // microseconds
		if raw[1] < 0 || raw[1] >= 1e6 || raw[3] < 0 || raw[3] >= 1e6 {
			return unix.EINVAL
		}
		ts[0].Nsec, ts[1].Nsec = raw[1]*1000, raw[3]*1000
	}
	set := func(fd int) error {
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), uintptr(unsafe.Pointer(&[1]byte{})),
			uintptr(unsafe.Pointer(&ts[0])), unix.AT_EMPTY_PATH, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
	if dirfd != unix.AT_FDCWD && a[1] == 0 && c.data.number != sysUtimes { // futimens(3)
		return c.descriptor(0, set)
	}
	return c.file(dirfd, name, follow, set)
}

// maxAttribute is the longest value of an extended attribute; linux/limits.h.
const maxAttribute = 65536

// attribute sets or removes an extended attribute. Processes cannot set any on a symbolic link itself.
func (c *call) attribute() error {
	a := c.data.args
	key, err := c.text(a[1], 256, unix.ERANGE)
	if err != nil {
		return err
	}
	change := func(fd int) error { return unix.Removexattr(descriptor(fd), key) }
	switch c.data.number {
	case unix.SYS_SETXATTR, unix.SYS_LSETXATTR, unix.SYS_FSETXATTR:
		if a[3] > maxAttribute {
			return unix.E2BIG
		}
		value := make([]byte, a[3])
		if err := c.readAll(a[2], value); err != nil {
			return err
		}
		change = func(fd int) error { return unix.Setxattr(descriptor(fd), key, value, c.arg(4)) }
	}
	switch c.data.number {
	case unix.SYS_FSETXATTR, unix.SYS_FREMOVEXATTR:
		return c.descriptor(0, change)
	case unix.SYS_LSETXATTR, unix.SYS_LREMOVEXATTR:
		return c.file(unix.AT_FDCWD, 0, false, change)
	}
	return c.file(unix.AT_FDCWD, 0, true, change)
}
