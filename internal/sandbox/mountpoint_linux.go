//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// maxMountPoints limits the mount points that a sandbox remembers.
const maxMountPoints = 4096

// mountPoints are empty files and folders that nested sandboxes made to mount something on. They may be removed while they are empty.
type mountPoints struct {
	mu   sync.Mutex
	made map[birth]bool
}

// birth identifies a file uniquely: it contains the time of birth, because an inode number can be reused.
type birth struct {
	device [2]uint32
	inode  uint64
	at     unix.StatxTimestamp
}

// birthOf returns the birth of the file at a place. ok is false if the file system does not report it.
func birthOf(p place) (of birth, is unix.Statx_t, ok bool) {
	const what = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	err := unix.Statx(p.dir, p.base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, what, &is)
	return birth{[2]uint32{is.Dev_major, is.Dev_minor}, is.Ino, is.Btime}, is, err == nil && is.Mask&what == what
}

func (m *mountPoints) add(of birth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil || len(m.made) >= maxMountPoints {
		m.made = map[birth]bool{}
	}
	m.made[of] = true
}

func (m *mountPoints) has(of birth) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[of]
}

// mountPoint reports whether a place that does not exist yet is to be made as a mount point. This needs a process that prepares the
// mounts of its own namespace, and a decider that allows a mount point where it would not allow other changes. A file system mounted
// there is not visible outside the namespace, and other processes find an empty file or folder.
func (c *call) mountPoint(p place) bool {
	m, asks := c.decider.(Mounter)
	if !asks || c.options.Observe || !p.within || p.base == "" || !strings.HasPrefix(p.real, "/") || !c.hasSysAdmin() {
		return false
	}
	if _, err := p.stat(); err == nil {
		return false
	}
	events := c.changes(Write, p)
	return len(events) > 0 && c.decide(unix.EACCES, func() error {
		for _, e := range events {
			e.PID, e.Call = c.tgid(), c.id
			if !m.AllowsMountPoint(e) {
				return unix.EACCES
			}
		}
		return nil
	}) == nil && c.valid()
}

// makeMountPoint makes a mount point with make, in the process's domain, and remembers it.
func (c *call) makeMountPoint(p place, make func() error) error {
	if err := c.carryOutMake(p, make); err != nil {
		return err
	}
	if of, _, ok := birthOf(p); ok {
		c.mountPoints.add(of)
	}
	return nil
}

// openMountPoint makes an empty file as a mount point. The process gets a descriptor that is not writable.
func (c *call) openMountPoint(p place, flags int, mode uint32) error {
	fd := -1
	err := c.makeMountPoint(p, func() (err error) {
		fd, err = c.openPlace(p, unix.O_RDONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
		return err
	})
	if err != nil {
		return err
	}
	return c.hand(fd, flags)
}

// isUnusedMountPoint reports whether a place is an empty mount point that makeMountPoint made.
func (c *call) isUnusedMountPoint(p place) bool {
	if p.base == "" {
		return false
	}
	of, is, ok := birthOf(p)
	return ok && (is.Mode&unix.S_IFMT == unix.S_IFDIR || is.Mode&unix.S_IFMT == unix.S_IFREG && is.Size == 0) && c.mountPoints.has(of)
}

// unlink removes a file or an empty folder. It does not ask the decider about a mount point that a confined process made.
func (c *call) unlink(dirfd, arg, flags int) error {
	return c.at(dirfd, arg, false, func(p place) error {
		if _, err := p.stat(); errors.Is(err, unix.ENOENT) {
			return err // to remove what is not there changes nothing
		}
		err := writable(p)
		if err == nil && !c.isUnusedMountPoint(p) {
			err = c.mayWrite(Write, p)
		}
		if err != nil {
			return err
		}
		return c.runInDomain(func() error { return unix.Unlinkat(p.dir, p.name(), flags) })
	})
}
