//go:build unix && !linux && !darwin

package files

import "golang.org/x/sys/unix"

// searchOnly opens a folder to go through it; here that takes the right to read it too.
const searchOnly = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openExact opens an absolute path and refuses a symbolic link anywhere in it (ELOOP, ENOTDIR).
func openExact(path string, flags int) (int, error) {
	return openWalking(path, flags)
}
