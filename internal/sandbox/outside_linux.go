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

// Processes inside may make mount namespaces, and there a path means something else than to the sandbox. Such a path is
// followed in the process's namespace, one name at a time, and the file that is found is held. What is decided on is
// the file's path outside:
//
//   - The mount by which the file is held says on which file system it lies, and where there.
//   - The sandbox's own mounts say which paths lead there outside. A path counts if it leads to the very same file.
//   - A file system that was made inside, and that is mounted nowhere outside, is the memory of those inside. Which ones
//     were, the sandbox knows, as it has made them; to observe, the kernel has, and each one in memory counts.
//   - What has no path outside is refused, or to observe, told of in words.
//
// Whatever is allowed is then done by the held file, through the mount by which it was found.

// namespaces is what the sandbox knows of those that were made inside.
type namespaces struct {
	made atomic.Bool // a user or mount namespace was made: paths may mean something else from then on

	mu sync.Mutex // guards what follows
	// memory are the devices of file systems that the sandbox has made for processes inside.
	memory map[string]bool
	// table are the sandbox's own mounts, as they were when the file at was opened; 0: it was not.
	table mounts
	at    int
}

// ownMounts are the mounts of the sandbox's own namespace. They are read again when the kernel says that they have
// changed (poll in proc_pid_mountinfo(5)).
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
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0) // before they are read
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
		table[root.Mnt_id] = mount{} // a root folder that is no mount (chroot) is not listed
	}
	n.at, n.table = fd, table
	return table, nil
}

// own notes that a file system was made inside.
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

// mounts are those of a process, by their ids. They are not changed.
type mounts map[uint64]mount

// mostMountinfo bounds what is read of a process's mounts: with more, nothing is found there.
const mostMountinfo = 4 << 20

// readMounts reads those of a process, by its folder in /proc.
func readMounts(of string) (mounts, error) {
	text, err := proc.SlurpMost(of+"/mountinfo", nil, mostMountinfo)
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

// unescape reads what mountinfo writes as \ooo: blanks, and the backslash.
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

// within is a path below a folder, relative to it, with a slash before it; empty: it is the folder.
func pathWithin(file, folder string) (rest string, ok bool) {
	if folder == "/" {
		return strings.TrimSuffix(file, "/"), true
	}
	rest, ok = strings.CutPrefix(file, folder)
	return rest, ok && (rest == "" || rest[0] == '/')
}

// outside says what a held file is outside.
type outside struct {
	names []string // its paths. It has to be allowed by each
	mine  bool     // it is the memory of those inside, and has none
	// sealed: nothing can be changed there, as its path does not say what it is.
	sealed bool
}

// errNowhere says that a held file has no path outside, or that it cannot be found out.
var errNowhere = fmt.Errorf("no path outside: %w", unix.EACCES)

// outsideOf finds out what a held file is outside.
func (c *call) outsideOf(fd int) (o outside, err error) {
	real, err := readlink(unix.AT_FDCWD, descriptor(fd))
	if err != nil {
		return o, err
	}
	if !strings.HasPrefix(real, "/") {
		return outside{names: []string{real}}, nil // a pipe and the like
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
	if err != nil && c.options.Observe && sameFile(real, &st) { // in a folder that was made the root and is no mount itself
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
		return outside{mine: true}, nil
	case st.Nlink == 0: // it can get a name (O_TMPFILE), and be changed by no other one
		return outside{names: []string{real}, sealed: true}, nil
	case !ok: // it was moved out of what is mounted
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

// mostAncestors bounds the processes that are looked at for a mount.
const mostAncestors = 64

// mountOf is a mount on which a file is held, in the namespace of the calling thread or of a process from which it may
// have the file: one that it descends from. Others are refused.
func (c *call) mountOf(id uint64) (mount, error) {
	of, seen := strconv.Itoa(int(c.pid)), map[string]bool{}
	for range mostAncestors {
		if namespace, err := readlink(unix.AT_FDCWD, "/proc/"+of+"/ns/mnt"); err == nil && !seen[namespace] {
			seen[namespace] = true
			all, err := readMounts("/proc/" + of)
			if !c.valid() {
				return mount{}, unix.ESRCH
			}
			if m, ok := all[id]; ok && err == nil {
				root, err := readlink(unix.AT_FDCWD, "/proc/"+of+"/root")
				m.point = path.Join(root, m.point) // what stands there begins at the process's root
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
	return mount{}, errNowhere // of a third namespace, or of none any more
}

// sameFile reports whether a path, without symbolic links, leads to a file here.
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

// foreign reports whether the calling thread sees other mounts than the sandbox, or has another root.
func (c *call) foreign() bool { return c.namespaces.made.Load() && c.elsewhere() }

// inRoot is how the process's own names for a file are called outside.
func (c *call) inRoot(name string) string {
	return path.Join("/proc", strconv.Itoa(c.tgid), "root") + path.Join("/", name)
}

// settle finds out by which paths outside a place that is held is decided on. It closes the place if it fails.
func (c *call) settle(p place) (place, error) {
	o, err := c.outsideOf(p.dir)
	if c.options.Observe && errors.Is(err, errNowhere) {
		o, err, c.lost = outside{mine: true}, nil, true // it can be told of programs and sockets alone
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
	p.mine, p.sealed = o.mine, o.sealed
	if len(o.names) > 0 {
		p.real, p.others = o.names[0], o.names[1:]
	} else {
		real, _ := readlink(unix.AT_FDCWD, descriptor(p.dir))
		p.real = c.inRoot(path.Join(real, p.base))
	}
	return p, nil
}

// notInProc refuses a file of a file system of processes that is not the sandbox's own /proc: whose process it is
// about, its path does not say.
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
