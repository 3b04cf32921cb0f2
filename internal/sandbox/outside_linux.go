//go:build amd64 || arm64

package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// Confined processes may make mount namespaces, where a path may mean another file than in the sandbox. Such a path is resolved in
// the process's namespace, one name at a time, and the file that is found is held open. The decision is made on the file's path
// outside:
//
//   - The mount through which the file is held says on which file system the file lies, and at which path there.
//   - The sandbox's own mounts say which paths outside lead there. A path counts only if it leads to the very same file.
//   - A file system that was made inside, and that is mounted nowhere outside, is memory of the confined processes. The
//     sandbox knows these file systems, because it has made them. With Observe the kernel makes them, and each file system
//     in memory counts as one.
//   - A file without a path outside is rejected, or with Observe reported in words.
//
// An allowed call is then carried out on the held file, through the mount on which it was found.

// namespaces is the state of the namespaces that confined processes have made.
type namespaces struct {
	made atomic.Bool // a user or mount namespace was made: paths may mean other files from then on

	mu sync.Mutex // guards the fields below
	// memory are the devices of file systems that the sandbox has made for confined processes.
	memory map[string]bool
	// table are the sandbox's own mounts when at, the descriptor of mountinfo, was opened; at 0: it is not open.
	table mounts
	at    int
}

// ownMounts returns the mounts of the sandbox's own namespace. It reads them again if the kernel reports a change (poll in
// proc_pid_mountinfo(5)).
func (n *namespaces) ownMounts() (mounts, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.at != 0 {
		p := []unix.PollFd{{Fd: int32(n.at), Events: unix.POLLPRI}}
		if changed, err := unix.Poll(p, 0); err == nil && changed == 0 {
			return n.table, nil
		}
		unix.Close(n.at)
		n.at = 0
	}
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0) // opened before the mounts are read
	if err != nil {
		return nil, err
	}
	table, err := readMounts("/proc/self")
	var root unix.Statx_t
	if err == nil {
		err = unix.Statx(unix.AT_FDCWD, "/", unix.AT_STATX_DONT_SYNC, unix.STATX_MNT_ID, &root)
	}
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	if _, ok := table[root.Mnt_id]; !ok {
		table[root.Mnt_id] = mount{} // a root folder that is not a mount (chroot) is not listed
	}
	n.at, n.table = fd, table
	return table, nil
}

// own records the device of a file system that was made inside.
func (n *namespaces) own(device string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.memory == nil {
		n.memory = map[string]bool{}
	}
	n.memory[device] = true
}

func (n *namespaces) owns(device string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.memory[device]
}

// mount is a line of mountinfo; proc_pid_mountinfo(5).
type mount struct {
	device string // "major:minor"
	root   string // within the file system
	point  string
	kind   string
}

// mounts are a process's mounts by their ids. They are immutable.
type mounts map[uint64]mount

// maxMountinfo limits the size of a process's mountinfo. readMounts fails if it is larger.
const maxMountinfo = 4 << 20

// readMounts reads the mounts of a process. of is its folder in /proc.
func readMounts(of string) (mounts, error) {
	text, err := proc.SlurpMost(of+"/mountinfo", nil, maxMountinfo)
	if err != nil {
		return nil, err
	}
	all := mounts{}
	for line := range bytes.Lines(text) {
		before, after, ok := strings.Cut(string(line), " - ")
		fields := strings.Fields(before)
		if !ok || len(fields) < 6 {
			continue
		}
		id, err := strconv.ParseUint(fields[0], 10, 64)
		if err != nil {
			continue
		}
		kind, _, _ := strings.Cut(after, " ")
		all[id] = mount{fields[2], unescape(fields[3]), unescape(fields[4]), kind}
	}
	return all, nil
}

// unescape decodes the octal escapes of mountinfo (\ooo), which stand for blanks and backslashes.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if n, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(n))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// pathWithin returns the path of a file relative to a folder, with a leading slash; empty: the file is the folder.
func pathWithin(file, folder string) (rest string, ok bool) {
	if folder == "/" {
		return strings.TrimSuffix(file, "/"), true
	}
	rest, ok = strings.CutPrefix(file, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// outside describes a held file as seen outside the process's mount namespace.
type outside struct {
	names      []string // its paths. Each of them must be allowed
	insideOnly bool     // it is on a file system in memory that was made inside, and has no path outside
	// sealed: the file cannot be changed, because its path does not identify it.
	sealed bool
}

// errNowhere says that a held file has no path outside, or that the path cannot be determined.
var errNowhere = fmt.Errorf("no path outside: %w", unix.EACCES)

// onOwnMount reports whether a place lies on one of the sandbox's own mounts that is no procfs.
func (c *call) onOwnMount(p place) bool {
	file := p.seen
	if file == nil || file.err != nil {
		file = lookAt(p.dir, "")
	}
	if file.err != nil {
		return false
	}
	own, err := c.namespaces.ownMounts()
	return err == nil && own[file.Mnt_id].kind != "" && own[file.Mnt_id].kind != "proc"
}

// outsideOf finds the paths of a held file outside.
func (c *call) outsideOf(fd int) (o outside, err error) {
	real, err := pathOf(fd)
	if err != nil {
		return o, err
	}
	if !strings.HasPrefix(real, "/") {
		return outside{names: []string{real}}, nil // a pipe, for example
	}
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &st); err != nil {
		return o, err
	}
	own, err := c.namespaces.ownMounts()
	if err != nil {
		return o, err
	}
	if _, ok := own[st.Mnt_id]; ok || strings.HasPrefix(real, "/memfd:") && st.Nlink == 0 {
		return outside{names: []string{real}}, nil
	}
	m, err := c.mountOf(st.Mnt_id)
	if err != nil && c.options.Observe && sameFile(real, &st) { // in a folder that was made the root and is not a mount
		return outside{names: []string{real}}, nil
	}
	if err != nil && st.Nlink > 0 {
		return o, err
	}
	known := false
	for _, of := range own {
		known = known || of.device == m.device
	}
	rest, ok := pathWithin(real, m.point)
	switch {
	case !known && (m.kind == "tmpfs" || m.kind == "devpts") && (c.options.Observe || c.namespaces.owns(m.device)):
		return outside{insideOnly: true}, nil
	case st.Nlink == 0: // it can get a name (O_TMPFILE), and has no other name by which it could be changed
		return outside{names: []string{real}, sealed: true}, nil
	case !ok: // it was moved out of the mounted folder
		return o, errNowhere
	case !known && m.kind == "proc":
		return outside{names: []string{path.Join("/proc", m.root, rest)}, sealed: true}, nil
	case !known:
		return o, errNowhere
	}
	inside := path.Join(m.root, rest)
	verified := false
	for _, of := range own {
		below, ok := pathWithin(inside, of.root)
		if of.device != m.device || !ok {
			continue
		}
		name := path.Join(of.point, below)
		if slices.Contains(o.names, name) {
			continue
		}
		o.names = append(o.names, name)
		verified = verified || sameFile(name, &st)
	}
	if !verified {
		return o, errNowhere
	}
	return o, nil
}

// maxAncestors limits the processes that are searched for a mount.
const maxAncestors = 64

// mountOf returns the mount of a held file, in the namespace of the calling thread or of one of its ancestors, from which it may have
// inherited the file. It rejects mounts of other namespaces.
func (c *call) mountOf(id uint64) (mount, error) {
	of, seen := strconv.Itoa(int(c.pid)), map[string]bool{}
	for range maxAncestors {
		if namespace, err := readlink(unix.AT_FDCWD, "/proc/"+of+"/ns/mnt"); err == nil && !seen[namespace] {
			seen[namespace] = true
			all, err := readMounts("/proc/" + of)
			if !c.valid() {
				return mount{}, unix.ESRCH
			}
			if m, ok := all[id]; ok && err == nil {
				root, err := readlink(unix.AT_FDCWD, "/proc/"+of+"/root")
				m.point = path.Join(root, m.point) // paths in mountinfo are relative to the process's root
				return m, err
			}
		}
		status, err := proc.Slurp("/proc/"+of+"/status", nil)
		if err != nil {
			break
		}
		if of = statusLine(status, "PPid"); of == "" || of == "0" || of == strconv.Itoa(unix.Getpid()) {
			break
		}
	}
	return mount{}, errNowhere // of another namespace, or of one that is gone
}

// sameFile reports whether a path without symbolic links leads to the file in the sandbox's namespace.
func sameFile(name string, st *unix.Statx_t) bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{Flags: held | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return false
	}
	defer unix.Close(fd)
	var is unix.Statx_t
	err = unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_BASIC_STATS, &is)
	return err == nil && is.Ino == st.Ino && is.Dev_major == st.Dev_major && is.Dev_minor == st.Dev_minor
}

// seesOtherMounts reports whether the calling thread has other mounts or another root than the sandbox.
func (c *call) seesOtherMounts() bool { return c.namespaces.made.Load() && c.viewDiffers() }

// inRoot returns the path outside of a name in the process's own root.
func (c *call) inRoot(name string) string {
	return path.Join("/proc", strconv.Itoa(c.tgid()), "root") + path.Join("/", name)
}

// resolveOutside sets the outside paths by which a held place is decided on. It closes the place if it fails.
func (c *call) resolveOutside(p place) (place, error) {
	if p.real != "" && c.onOwnMount(p) {
		return p, nil
	}
	o, err := c.outsideOf(p.dir)
	if c.options.Observe && errors.Is(err, errNowhere) {
		o, err, c.lost = outside{insideOnly: true}, nil, true // only programs and sockets can be reported
	}
	for i := range o.names {
		if p.base != "" {
			o.names[i] = path.Join(o.names[i], p.base)
		}
		if err == nil && !o.sealed {
			err = c.mayTouch(o.names[i])
		}
	}
	if err == nil && !o.sealed {
		err = notInProc(p.dir, o.names...)
	}
	if err != nil {
		p.close()
		return place{}, err
	}
	p.insideOnly, p.sealed = o.insideOnly, o.sealed
	if len(o.names) > 0 {
		p.real, p.others = o.names[0], o.names[1:]
	} else {
		real, _ := pathOf(p.dir)
		p.real = c.inRoot(path.Join(real, p.base))
	}
	return p, nil
}

// notInProc rejects a file of a procfs that is not the sandbox's own /proc, because its path does not identify the process.
func notInProc(fd int, names ...string) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type != unix.PROC_SUPER_MAGIC {
		return nil
	}
	for _, name := range names {
		if name != "/proc" && !strings.HasPrefix(name, "/proc/") {
			return unix.EACCES
		}
	}
	return nil
}
