package files

import "golang.org/x/sys/unix"

// searchOnly opens a folder to go through it: O_SEARCH of <sys/fcntl.h>, which is O_EXEC|O_DIRECTORY.
const searchOnly = 0x40000000 | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC

// openExact opens an absolute path and refuses a symbolic link anywhere in it (ELOOP, ENOTDIR).
func openExact(path string, flags int) (int, error) {
	return openWalking(path, flags)
}
