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

// Processes inside may make namespaces, by which they restrict themselves (bubblewrap), and mount there what names no
// file by its options: what they see already, a file system in memory, /proc and terminals. The flags of clone and
// unshare lie in registers, so the kernel makes namespaces itself. Mounts the sandbox makes, by an errand in the
// process's namespaces: what mount is to do lies in memory. Which file is mounted where is not decided: what a file is,
// the sandbox finds out when it is used (see outsideOf).

// newNamespace lets the kernel make a user or mount namespace.
func (c *call) newNamespace() error {
	c.namespaces.made.Store(true) // before the first process is in one
	c.proceed()
	return errAnswered
}

// capSysAdmin is CAP_SYS_ADMIN.
const capSysAdmin = 21

// administers reports whether the calling thread has CAP_SYS_ADMIN in a user namespace that was made inside.
func (c *call) administers() bool {
	set, err := strconv.ParseUint(c.status("CapEff"), 16, 64)
	return err == nil && set>>capSysAdmin&1 == 1 && c.apart("user")
}

// apart reports whether the calling thread is in another namespace of a kind than the sandbox.
func (c *call) apart(kind string) bool {
	theirs, err1 := readlink(unix.AT_FDCWD, c.proc("ns/"+kind))
	own, err2 := readlink(unix.AT_FDCWD, "/proc/thread-self/ns/"+kind)
	return err1 == nil && err2 == nil && theirs != own && c.valid()
}

// unfollowed refuses what would make paths ambiguous.
func (c *call) unfollowed() error { return c.refuse("another root folder, or a mount", unix.EPERM) }

// mayMount says why the calling thread may not change mounts; nil: it may, as far as the kernel allows.
func (c *call) mayMount() error {
	switch {
	case !c.apart("user") || !c.apart("mnt"):
		return c.unfollowed()
	case !c.administers():
		return unix.EPERM
	}
	return nil
}

// visit is an errand in the namespaces of the calling thread.
type visit struct {
	errand
	by     *call
	here   int   // the step that opens the folder of the errand's open files
	opened []int // steps that open files
	held   []int // open files, to be closed
}

// visit begins an errand that enters the calling thread's namespaces of some kinds. It has to be closed.
func (c *call) visit(kinds ...string) (*visit, error) {
	v := &visit{by: c}
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

func (v *visit) close() {
	for _, fd := range v.held {
		unix.Close(fd)
	}
}

func (v *visit) opens(step int) int {
	v.opened = append(v.opened, step)
	return step
}

// toFiles has the errand go to the folder in which its open files are numbers.
func (v *visit) toFiles() {
	v.add(unix.SYS_FCHDIR)
	v.arg(0, v.here)
}

// do runs the errand, in the process's domain, and hands the results of its steps to use while the files that it has
// opened are open.
func (v *visit) do(use func(results []int) error) error {
	return v.by.under(func() error {
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

// target holds the file that a path argument leads to.
func (c *call) target(arg int) (place, error) {
	name, err := c.name(arg)
	if err != nil {
		return place{}, err
	}
	return c.held(name)
}

// held holds the file that a path leads to.
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

// walkTo begins to follow a path from the working directory.
func (c *call) walkTo(name string) (*walker, string, error) {
	if name == "" {
		return nil, "", unix.ENOENT
	}
	return c.newWalker(unix.AT_FDCWD, name)
}

// Flags of mount by which a mount allows less, or says how it keeps times.
const mountAttributes = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW |
	unix.MS_NOATIME | unix.MS_NODIRATIME | unix.MS_RELATIME | unix.MS_STRICTATIME

const propagation = unix.MS_SHARED | unix.MS_PRIVATE | unix.MS_SLAVE | unix.MS_UNBINDABLE

// mount carries mount out: its source, target, kind, flags and options are read once.
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
		return c.unfollowed()
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

// mountOld mounts what is there, or changes a mount.
func (c *call) mountOld(from *place, to place, flags uint64) error {
	v, err := c.visit("user", "mnt")
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

// kinds are the file systems that can be mounted, with their options: none of these names a file.
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
		return c.unfollowed()
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
	v, err := c.visit(of...)
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
		case option == "", kind == "devpts" && option == "newinstance": // each is one
		case !slices.Contains(known, key) || value == "" || len(v.steps) > mostSteps/2:
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

// attributes are the flags of mount as fsmount has them.
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

// unmount carries umount2 out. A mount on which the sandbox holds a file is busy: so it is named by its folder, unless
// it is to go as soon as nothing holds it.
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
	v, err := c.visit("user", "mnt")
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

// pivotRoot carries pivot_root out: it changes the root of all processes whose root is the caller's, the caller among
// them.
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
	v, err := c.visit("user", "mnt")
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

// idMaps are the files in /proc that say whom the users of a namespace are outside of it.
var idMaps = []string{"uid_map", "gid_map", "projid_map", "setgroups"}

// isIDMap reports whether a place is such a file, and the calling thread administers a namespace of its own. The kernel
// goes by the namespace of the process that has opened the file.
func (c *call) isIDMap(p place) bool {
	if !c.namespaces.made.Load() || p.mine || p.sealed || !strings.HasPrefix(p.real, "/proc/") || !slices.Contains(idMaps, path.Base(p.real)) {
		return false
	}
	var fs unix.Statfs_t
	return unix.Fstatfs(p.dir, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC && c.administers()
}

// openIDMap opens such a file in the calling thread's user namespace.
func (c *call) openIDMap(p place, flags int) (int, error) {
	file, err := p.hold()
	if err != nil {
		return -1, err
	}
	defer unix.Close(file)
	v, err := c.visit("user")
	if err != nil {
		return -1, err
	}
	defer v.close()
	v.add(unix.SYS_OPENAT, 0, v.file(file), uintptr(flags&unix.O_ACCMODE|unix.O_CLOEXEC), 0)
	v.arg(0, v.here)
	last := len(v.steps) - 1
	fd := -1
	results, err := v.run() // its caller acts in the process's domain already
	if len(results) > 0 {
		unix.Close(results[0])
	}
	if err == nil {
		fd = results[last]
	}
	return fd, err
}

// childsIDMap reports whether a path in /proc is such a file of a child of the calling process, which may write it.
func (c *call) childsIDMap(real string) bool {
	rest, _ := strings.CutPrefix(real, "/proc/")
	id, name, _ := strings.Cut(rest, "/")
	if !c.namespaces.made.Load() || !slices.Contains(idMaps, name) {
		return false
	}
	status, err := proc.Slurp("/proc/"+id+"/status", nil)
	return err == nil && strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(c.tgid)+"\n")
}

// directory is the working directory of the process, as it is called outside, and which folder that is.
func (c *call) directory() (name string, id fileID, err error) {
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
	case err != nil && !c.foreign(): // handed over from another namespace
		return "", id, unix.EACCES
	}
	name, err = readlink(unix.AT_FDCWD, descriptor(fd))
	return c.inRoot(name), id, err
}

// interpreter opens the program that a script names.
func (c *call) interpreter(name string) (int, error) {
	if !c.foreign() {
		return unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	}
	p, err := c.held(name)
	if err != nil {
		return -1, err
	}
	defer p.close()
	return unix.Open(descriptor(p.dir), unix.O_RDONLY|unix.O_CLOEXEC, 0)
}
