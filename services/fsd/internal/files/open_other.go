//go:build unix && !linux && !darwin

package files

import "golang.org/x/sys/unix"

// searchOnly opens a folder to go through it; here that takes the right to read it too.
const searchOnly = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
