package files

import (
	"cmp"
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// safeOpenFlags are the flags of every open: it must never block, acquire a controlling terminal, or leak into a child.
const safeOpenFlags = unix.O_NONBLOCK | unix.O_NOCTTY | unix.O_CLOEXEC | unix.O_NOFOLLOW

// openFile opens the regular file at a resolved path. If a symbolic link was swapped into the path, it returns a
// Changed error. The flags may be O_RDONLY, O_WRONLY or O_RDWR.
func (s *state) openFile(p *resolvedPath, flags int) (int, meta, error) {
	fd, err := openExact(p.path, flags|safeOpenFlags)
	if err != nil {
		return -1, meta{}, openError(p, err)
	}
	m, err := s.checkOpened(p, fd)
	if err != nil {
		_ = unix.Close(fd)
		return -1, meta{}, err
	}
	return fd, m, nil
}

// checkOpened checks the opened file, which may differ from the located one.
func (s *state) checkOpened(p *resolvedPath, fd int) (meta, error) {
	m, err := fstat(fd)
	if err != nil {
		return meta{}, errSystem("examine", p.requested, err)
	}
	if err := checkRegular(p.requested, m); err != nil {
		return meta{}, err
	}
	if m.identity == p.meta.identity && m.links == p.meta.links {
		return m, nil
	}
	protected, err := s.isOpenedProtected(m)
	if err != nil {
		return meta{}, err
	}
	if protected {
		return meta{}, errProtected(p.requested)
	}
	return m, nil
}

func checkRegular(path string, m meta) error {
	if m.isDirectory() {
		return errDirectory(path)
	}
	if !m.isRegular() {
		return fail(Invalid, "is %s, not a regular file: %s", m.describe(), path)
	}
	return nil
}

// openError converts an error of openExact, or of an openat below it, for a path that was just resolved.
func openError(p *resolvedPath, err error) error {
	switch {
	case errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EMLINK):
		return errSwapped(p.requested)
	case errors.Is(err, unix.ENXIO):
		// A FIFO without a reader, or a socket, that was put there after the path was located.
		return errSwapped(p.requested)
	case errors.Is(err, unix.EISDIR):
		return errDirectory(p.requested)
	}
	return errAt("open", p.requested, err)
}

// openWalking opens an absolute path folder by folder and rejects a symbolic link anywhere in it. It needs the
// permission to search the folders, not to read them.
func openWalking(path string, flags int) (int, error) {
	dir, err := openat(unix.AT_FDCWD, "/", searchOnly)
	if err != nil {
		return -1, err
	}
	names := strings.Split(strings.Trim(path, "/"), "/")
	for i, name := range names {
		name = cmp.Or(name, ".")
		how := searchOnly
		if i == len(names)-1 {
			how = flags | unix.O_NOFOLLOW
		}
		next, err := openat(dir, name, how)
		_ = unix.Close(dir)
		if err != nil {
			return -1, err
		}
		dir = next
	}
	return dir, nil
}

func openat(dir int, name string, flags int) (fd int, err error) {
	return retried(func() (int, error) { return unix.Openat(dir, name, flags|unix.O_CLOEXEC, 0) })
}
