package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// identity identifies a file regardless of its path.
type identity struct{ dev, ino uint64 }

// meta is the part of a file's metadata that this package uses, in types that are the same on every system.
type meta struct {
	identity
	mode         uint32
	links        uint64
	size         int64
	uid, gid     uint32
	mtime, ctime int64 // nanoseconds since 1970
}

//nolint:unconvert // the fields' types differ from system to system
func metaOf(st *unix.Stat_t) meta {
	return meta{
		identity: identity{uint64(st.Dev), uint64(st.Ino)},
		mode:     uint32(st.Mode),
		links:    uint64(st.Nlink),
		size:     st.Size,
		uid:      st.Uid,
		gid:      st.Gid,
		mtime:    st.Mtim.Nano(),
		ctime:    st.Ctim.Nano(),
	}
}

func (m meta) format() uint32      { return m.mode & unix.S_IFMT }
func (m meta) isRegular() bool     { return m.format() == unix.S_IFREG }
func (m meta) isDirectory() bool   { return m.format() == unix.S_IFDIR }
func (m meta) isLink() bool        { return m.format() == unix.S_IFLNK }
func (m meta) permissions() uint32 { return m.mode & 0o777 }

// privileged reports whether the set-user-id or set-group-id bit is set.
func (m meta) privileged() bool { return m.mode&(unix.S_ISUID|unix.S_ISGID) != 0 }

// sameContent reports whether the metadata shows no change of the content.
func (m meta) sameContent(o meta) bool {
	return m.identity == o.identity && m.size == o.size && m.mtime == o.mtime && m.ctime == o.ctime
}

func (m meta) describe() string {
	switch m.format() {
	case unix.S_IFDIR:
		return "a directory"
	case unix.S_IFIFO:
		return "a FIFO"
	case unix.S_IFSOCK:
		return "a socket"
	case unix.S_IFCHR, unix.S_IFBLK:
		return "a device"
	case unix.S_IFLNK:
		return "a symbolic link"
	}
	return "a special file"
}

func lstat(path string) (meta, error) {
	return look(func(st *unix.Stat_t) error { return unix.Lstat(path, st) })
}

func stat(path string) (meta, error) {
	return look(func(st *unix.Stat_t) error { return unix.Stat(path, st) })
}

func fstat(fd int) (meta, error) {
	return look(func(st *unix.Stat_t) error { return unix.Fstat(fd, st) })
}

func lstatAt(dir int, name string) (meta, error) {
	return look(func(st *unix.Stat_t) error { return unix.Fstatat(dir, name, st, unix.AT_SYMLINK_NOFOLLOW) })
}

func look(call func(*unix.Stat_t) error) (meta, error) {
	var st unix.Stat_t
	err := retry(func() error { return call(&st) })
	return metaOf(&st), err
}

// retry repeats a system call that a signal interrupted. Slow file systems (FUSE, network) return EINTR, and the Go
// runtime sends itself signals.
func retry(call func() error) error {
	_, err := retried(func() (int, error) { return 0, call() })
	return err
}

// retried is retry for a system call that returns a number.
func retried(call func() (int, error)) (int, error) {
	for {
		if n, err := call(); !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
