//go:build amd64 || arm64

package sandbox

import (
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// mostMountPoints bounds the mount points that a sandbox remembers.
const mostMountPoints = 4096

// mountPoints are files and folders that were made for sandboxes inside to mount something on. They are empty, and
// may be removed as long as they are.
type mountPoints struct {
	mu   sync.Mutex
	made map[birth]bool
}

// birth names a file for ever: another one can get its number later.
type birth struct {
	device [2]uint32
	inode  uint64
	at     unix.StatxTimestamp
}

// birthOf is that of what is at a place; not ok: the file system does not tell.
func birthOf(p place) (of birth, is unix.Statx_t, ok bool) {
	const what = unix.STATX_BASIC_STATS | unix.STATX_BTIME
	err := unix.Statx(p.dir, p.base, unix.AT_SYMLINK_NOFOLLOW|unix.AT_STATX_DONT_SYNC, what, &is)
	return birth{[2]uint32{is.Dev_major, is.Dev_minor}, is.Ino, is.Btime}, is, err == nil && is.Mask&what == what
}

func (m *mountPoints) add(of birth) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.made == nil || len(m.made) >= mostMountPoints {
		m.made = map[birth]bool{}
	}
	m.made[of] = true
}

func (m *mountPoints) has(of birth) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.made[of]
}

// mountPoint reports whether a place that is not there yet is to be made as a mount point: by a process that prepares
// the mounts of its own namespace, and where the decider says that it may have one that it could not have otherwise.
// What is mounted on it is not there for anybody else, and what others find is empty.
func (c *call) mountPoint(p place) bool {
	m, asks := c.decider.(Mounter)
	if !asks || c.options.Observe || !p.within || p.base == "" || !strings.HasPrefix(p.real, "/") || !c.administers() {
		return false
	}
	if _, err := p.stat(); err == nil {
		return false
	}
	events := c.changes(Write, p)
	return len(events) > 0 && c.decide(unix.EACCES, func() error {
		for _, e := range events {
			e.PID, e.Call = c.tgid, c.id
			if !m.AllowsMountPoint(e) {
				return unix.EACCES
			}
		}
		return nil
	}) == nil && c.valid()
}

// makeMountPoint has it made, in the process's domain, and remembers it.
func (c *call) makeMountPoint(p place, make func() error) error {
	if err := c.makes(p, make); err != nil {
		return err
	}
	if of, _, ok := birthOf(p); ok {
		c.mountPoints.add(of)
	}
	return nil
}

// openMountPoint makes an empty file as a mount point. What the process gets cannot be written to.
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

// spent reports whether a place is an empty mount point that was made so.
func (c *call) spent(p place) bool {
	if p.base == "" {
		return false
	}
	of, is, ok := birthOf(p)
	return ok && (is.Mode&unix.S_IFMT == unix.S_IFDIR || is.Mode&unix.S_IFMT == unix.S_IFREG && is.Size == 0) && c.mountPoints.has(of)
}

// unlink removes a file, or a folder that is empty. Nobody is asked about a mount point that was made inside.
func (c *call) unlink(dirfd, arg, flags int) error {
	return c.at(dirfd, arg, false, func(p place) error {
		err := writable(p)
		if err == nil && !c.spent(p) {
			err = c.mayWrite(Write, p)
		}
		if err != nil {
			return err
		}
		return c.under(func() error { return unix.Unlinkat(p.dir, p.name(), flags) })
	})
}
