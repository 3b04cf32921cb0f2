//go:build amd64 || arm64

package sandbox

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// Confined processes may make namespaces to restrict themselves further (bubblewrap). They may mount there only file systems that
// name no file in their options: bind mounts of what they see already, tmpfs, /proc and devpts. The flags of clone and unshare are in
// registers, so the kernel makes namespaces itself. The arguments of mount are in memory, so the sandbox mounts, by a helper in the
// process's namespaces. The sandbox does not decide which file is mounted where: it finds out which file a path means when the path
// is used (see outsideOf).

// newNamespace lets the kernel make a user or mount namespace.
func (c *call) newNamespace() error {
	c.namespaces.made.Store(true) // before the first process enters it
	c.proceed()
	return errAnswered
}

// capSysAdmin is CAP_SYS_ADMIN.
const capSysAdmin = 21

// hasSysAdmin reports whether the calling thread has CAP_SYS_ADMIN in a user namespace that a confined process made.
func (c *call) hasSysAdmin() bool {
	set, err := strconv.ParseUint(c.status("CapEff"), 16, 64)
	return err == nil && set>>capSysAdmin&1 == 1 && c.inOtherNamespace("user")
}

// inOtherNamespace reports whether the calling thread's namespace of a kind differs from the sandbox's.
func (c *call) inOtherNamespace(kind string) bool {
	theirs, err1 := readlink(unix.AT_FDCWD, c.proc("ns/"+kind))
	own, err2 := readlink(unix.AT_FDCWD, "/proc/thread-self/ns/"+kind)
	return err1 == nil && err2 == nil && theirs != own && c.valid()
}

// rejectMount rejects a call that would make paths ambiguous.
func (c *call) rejectMount() error { return c.refuse("another root folder, or a mount", unix.EPERM) }

// mayMount returns an error if the calling thread may not change mounts; nil: it may, as far as the kernel allows.
func (c *call) mayMount() error {
	switch {
	case !c.inOtherNamespace("user") || !c.inOtherNamespace("mnt"):
		return c.rejectMount()
	case !c.hasSysAdmin():
		return unix.EPERM
	}
	return nil
}

// callerHelper is a helper in the namespaces of the calling thread.
type callerHelper struct {
	nsHelper
	by     *call
	here   int   // the step that opens the folder of the helper's open files
	opened []int // steps that open files
	held   []int // descriptors to close
}

// newCallerHelper makes a helper that enters the calling thread's namespaces of the given kinds. The caller must close it.
func (c *call) newCallerHelper(kinds ...string) (*callerHelper, error) {
	v := &callerHelper{by: c}
	v.here = v.opens(v.self())
	for _, kind := range kinds {
		fd, err := unix.Open(c.proc("ns/"+kind), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			v.close()
			return nil, unix.EPERM
		}
		v.held = append(v.held, fd)
		v.add(unix.SYS_SETNS, uintptr(fd), 0)
	}
	if !c.valid() {
		v.close()
		return nil, unix.ESRCH
	}
	return v, nil
}

func (v *callerHelper) close() {
	for _, fd := range v.held {
		unix.Close(fd)
	}
}

func (v *callerHelper) opens(step int) int {
	v.opened = append(v.opened, step)
	return step
}

// toFiles adds a step that changes to the folder where the helper's open files are named by number.
func (v *callerHelper) toFiles() {
	v.add(unix.SYS_FCHDIR)
	v.arg(0, v.here)
}

// do runs the helper with the restrictions of the process's domain. It passes the results of the steps to use, which may be nil,
// while the files that the helper opened are open.
func (v *callerHelper) do(use func(results []int) error) error {
	return v.by.runInDomain(func() error {
		results, err := v.run()
		if err == nil && use != nil {
			err = use(results)
		}
		for _, step := range v.opened {
			if step <= len(results) {
				unix.Close(results[step-1])
			}
		}
		return err
	})
}

// target opens the file that a path argument leads to, with O_PATH.
func (c *call) target(arg int) (place, error) {
	name, err := c.name(arg)
	if err != nil {
		return place{}, err
	}
	return c.held(name)
}

// held opens the file that a path leads to, with O_PATH.
func (c *call) held(name string) (place, error) {
	w, rest, err := c.walkTo(name)
	if err != nil {
		return place{}, err
	}
	defer w.close()
	p, err := w.walk(rest, true)
	if err == nil && p.base != "" {
		p.close()
		return place{}, unix.ENOENT
	}
	return p, err
}

// walkTo returns a walker that starts in the working directory.
func (c *call) walkTo(name string) (*walker, string, error) {
	if name == "" {
		return nil, "", unix.ENOENT
	}
	return c.newWalker(unix.AT_FDCWD, name)
}

// mountAttributes are the flags of mount that restrict a mount, or choose how it updates times.
const mountAttributes = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW |
	unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

const propagation = unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE

// mount carries out mount. It reads source, target, kind, flags and options once.
func (c *call) mount() error {
	if err := c.mayMount(); err != nil {
		return err
	}
	flags := c.data.args[3]
	if flags&unix.MS_MGC_MSK == unix.MS_MGC_VAL {
		flags &^= unix.MS_MGC_MSK
	}
	flags &^= unix.MS_SILENT
	to, err := c.target(1)
	if err != nil {
		return err
	}
	defer to.close()
	switch {
	case flags&(unix.MS_REMOUNT|unix.MS_BIND) == unix.MS_REMOUNT|unix.MS_BIND:
		return c.mountOld(nil, to, flags&(mountAttributes|unix.MS_REMOUNT|unix.MS_BIND))
	case flags&(unix.MS_REMOUNT|unix.MS_MOVE) != 0:
		return c.rejectMount()
	case flags&unix.MS_BIND != 0:
		from, err := c.target(0)
		if err != nil {
			return err
		}
		defer from.close()
		return c.mountOld(&from, to, flags&(unix.MS_BIND|unix.MS_REC))
	case flags&propagation != 0:
		return c.mountOld(nil, to, flags&(propagation|unix.MS_REC))
	}
	return c.mountNew(to, flags)
}

// mountOld makes a bind mount, or changes a mount.
func (c *call) mountOld(from *place, to place, flags uint64) error {
	v, err := c.newCallerHelper("user", "mnt")
	if err != nil {
		return err
	}
	defer v.close()
	v.toFiles()
	source := v.text("none")
	if from != nil {
		source = v.file(from.dir)
	}
	v.add(unix.SYS_MOUNT, source, v.file(to.dir), 0, uintptr(flags), 0)
	return v.do(nil)
}

// kinds are the file systems that can be mounted, with their options. None of the options names a file.
var kinds = map[string][]string{
	"tmpfs":  {"mode", "size", "nr_blocks", "nr_inodes", "uid", "gid"},
	"devpts": {"mode", "ptmxmode", "max", "uid", "gid"},
	"proc":   {"hidepid", "gid", "subset"},
}

// mountNew makes a file system and mounts it.
func (c *call) mountNew(to place, flags uint64) error {
	kind, err := c.text(c.data.args[2], 64, unix.EINVAL)
	if err != nil {
		return err
	}
	known, ok := kinds[kind]
	if !ok || flags&^mountAttributes != 0 {
		return c.rejectMount()
	}
	options := ""
	if at := c.data.args[4]; at != 0 {
		if options, err = c.text(at, page, unix.EINVAL); err != nil {
			return err
		}
	}
	of := []string{"user", "mnt"}
	if kind == "proc" {
		of = append(of, "pid")
	}
	v, err := c.newCallerHelper(of...)
	if err != nil {
		return err
	}
	defer v.close()
	if kind == "proc" {
		v.add(forks)
	}
	context := v.opens(v.add(unix.SYS_FSOPEN, v.text(kind), unix.FSOPEN_CLOEXEC))
	configure := func(command, key, value uintptr) {
		v.add(unix.SYS_FSCONFIG, 0, command, key, value, 0)
		v.arg(0, context)
	}
	for option := range strings.SplitSeq(options, ",") {
		key, value, _ := strings.Cut(option, "=")
		switch {
		case option == "", kind == "devpts" && option == "newinstance": // every devpts is a new instance
		case !slices.Contains(known, key) || value == "" || len(v.steps) > maxSteps/2:
			return unix.EINVAL
		default:
			configure(unix.FSCONFIG_SET_STRING, v.text(key), v.text(value))
		}
	}
	configure(unix.FSCONFIG_CMD_CREATE, 0, 0)
	made := v.opens(v.add(unix.SYS_FSMOUNT, 0, unix.FSMOUNT_CLOEXEC, attributes(flags)))
	v.arg(0, context)
	const both = unix.MOVE_MOUNT_F_EMPTY_PATH | unix.MOVE_MOUNT_T_EMPTY_PATH
	v.add(unix.SYS_MOVE_MOUNT, 0, v.text(""), uintptr(to.dir), v.text(""), both)
	v.arg(0, made)
	return v.do(func(results []int) error {
		var st unix.Stat_t
		if err := unix.Fstat(results[made-1], &st); err != nil {
			return err
		}
		if kind != "proc" {
			c.namespaces.own(strconv.Itoa(int(unix.Major(st.Dev))) + ":" + strconv.Itoa(int(unix.Minor(st.Dev))))
		}
		return nil
	})
}

// attributes converts flags of mount to those of fsmount.
func attributes(flags uint64) uintptr {
	var a uintptr
	for flag, attribute := range map[uint64]uintptr{
		unix.MS_RDONLY: unix.MOUNT_ATTR_RDONLY, unix.MS_NOSUID: unix.MOUNT_ATTR_NOSUID, unix.MS_NODEV: unix.MOUNT_ATTR_NODEV,
		unix.MS_NOEXEC: unix.MOUNT_ATTR_NOEXEC, unix.MS_NODIRATIME: unix.MOUNT_ATTR_NODIRATIME,
		unix.MS_NOSYMFOLLOW: unix.MOUNT_ATTR_NOSYMFOLLOW,
	} {
		if flags&flag != 0 {
			a |= attribute
		}
	}
	switch {
	case flags&unix.MS_STRICTATIME != 0:
		a |= unix.MOUNT_ATTR_STRICTATIME
	case flags&unix.MS_NOATIME != 0:
		a |= unix.MOUNT_ATTR_NOATIME
	}
	return a
}

// unmount carries out umount2. A mount is busy while the sandbox holds a file on it, so the mount is named by its folder, except with
// MNT_DETACH.
func (c *call) unmount() error {
	if err := c.mayMount(); err != nil {
		return err
	}
	flags := c.data.args[1]
	if flags&^(unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW) != 0 {
		return unix.EPERM
	}
	name, err := c.name(0)
	if err != nil {
		return err
	}
	w, rest, err := c.walkTo(name)
	if err != nil {
		return err
	}
	defer w.close()
	w.names = true
	p, err := w.walk(rest, flags&unix.MNT_DETACH != 0)
	if err != nil {
		return err
	}
	defer p.close()
	v, err := c.newCallerHelper("user", "mnt")
	if err != nil {
		return err
	}
	defer v.close()
	if p.base == "" {
		v.toFiles()
		v.add(unix.SYS_UMOUNT2, v.file(p.dir), uintptr(flags)&^unix.UMOUNT_NOFOLLOW)
	} else {
		w.close()
		w.root, w.at = -1, -1
		v.add(unix.SYS_FCHDIR, uintptr(p.dir))
		v.add(unix.SYS_UMOUNT2, v.text(p.base), uintptr(flags)|unix.UMOUNT_NOFOLLOW)
	}
	return v.do(nil)
}

// pivotRoot carries out pivot_root. It changes the root of all processes that have the caller's root, including the caller.
func (c *call) pivotRoot() error {
	if err := c.mayMount(); err != nil {
		return err
	}
	to, err := c.target(0)
	if err != nil {
		return err
	}
	defer to.close()
	old, err := c.target(1)
	if err != nil {
		return err
	}
	defer old.close()
	v, err := c.newCallerHelper("user", "mnt")
	if err != nil {
		return err
	}
	defer v.close()
	root, err := unix.Open(c.proc("root"), held|unix.O_DIRECTORY, 0)
	if err != nil || !c.valid() {
		return unix.ESRCH
	}
	v.held = append(v.held, root)
	v.add(unix.SYS_FCHDIR, uintptr(root))
	v.add(unix.SYS_CHROOT, v.text("."))
	v.toFiles()
	v.add(unix.SYS_PIVOT_ROOT, v.file(to.dir), v.file(old.dir))
	return v.do(nil)
}

// idMaps are the files in /proc that map the users of a namespace to users outside of it.
var idMaps = []string{"uid_map", "gid_map", "projid_map", "setgroups"}

// isIDMap reports whether a place is such a file and the calling thread administers its own namespace. The kernel checks the
// namespace of the process that opened the file.
func (c *call) isIDMap(p place) bool {
	if !c.namespaces.made.Load() || p.insideOnly || p.sealed || !strings.HasPrefix(p.real, "/proc/") ||
		!slices.Contains(idMaps, path.Base(p.real)) {
		return false
	}
	var fs unix.Statfs_t
	return unix.Fstatfs(p.dir, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC && c.hasSysAdmin()
}

// openIDMap opens such a file in the calling thread's user namespace.
func (c *call) openIDMap(p place, flags int) (int, error) {
	file, err := p.hold()
	if err != nil {
		return -1, err
	}
	defer unix.Close(file)
	v, err := c.newCallerHelper("user")
	if err != nil {
		return -1, err
	}
	defer v.close()
	v.add(unix.SYS_OPENAT, 0, v.file(file), uintptr(flags&unix.O_ACCMODE|unix.O_CLOEXEC), 0)
	v.arg(0, v.here)
	last := len(v.steps) - 1
	fd := -1
	results, err := v.run() // the caller runs in the process's domain already
	if len(results) > 0 {
		unix.Close(results[0])
	}
	if err == nil {
		fd = results[last]
	}
	return fd, err
}

// isChildIDMap reports whether a path in /proc is such a file of a child of the calling process, which may write it.
func (c *call) isChildIDMap(real string) bool {
	rest, _ := strings.CutPrefix(real, "/proc/")
	id, name, _ := strings.Cut(rest, "/")
	if !c.namespaces.made.Load() || !slices.Contains(idMaps, name) {
		return false
	}
	status, err := proc.Slurp("/proc/"+id+"/status", nil)
	return err == nil && strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(c.tgid())+"\n")
}

// directory returns the working directory of the process: its path outside, and its identity.
func (c *call) directory() (name string, id FileID, err error) {
	fd, err := unix.Open(c.proc("cwd"), held, 0)
	if err != nil {
		return "", id, err
	}
	defer unix.Close(fd)
	if id, err = idOf(descriptor(fd)); err != nil {
		return "", id, err
	}
	switch o, err := c.outsideOf(fd); {
	case err == nil && len(o.names) > 0:
		return o.names[0], id, nil
	case err != nil && !c.seesOtherMounts(): // the folder was passed from another namespace
		return "", id, unix.EACCES
	}
	name, err = readlink(unix.AT_FDCWD, descriptor(fd))
	return c.inRoot(name), id, err
}

// interpreter opens the program that a script names.
func (c *call) interpreter(name string) (int, error) {
	if !c.seesOtherMounts() {
		return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	p, err := c.held(name)
	if err != nil {
		return -1, err
	}
	defer p.close()
	return unix.Open(descriptor(p.dir), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
