//go:build unix && !linux && !darwin

package files

import "golang.org/x/sys/unix"

// searchOnly opens a folder for traversal; here this also needs the permission to read it.
const searchOnly = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC
