//go:build unix

package rundir

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf returns the id of the user who owns a file.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// writable reports whether files can be created in a folder. It returns false on a read-only file system.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
