package files

import (
	"errors"

	"golang.org/x/sys/unix"
)

// searchOnly opens a folder for traversal.
const searchOnly = unix.O_PATH | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openExact opens an absolute path and rejects a symbolic link anywhere in it (ELOOP, ENOTDIR).
func openExact(path string, flags int) (int, error) {
	fd, err := retried(func() (int, error) {
		return unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{
			Flags:   uint64(flags | unix.O_CLOEXEC),
			Resolve: unix.RESOLVE_NO_SYMLINKS,
		})
	})
	// openat2 exists since Linux 5.6; older container runtimes answer EPERM for unknown calls.
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) {
		return openWalking(path, flags)
	}
	return fd, err
}
