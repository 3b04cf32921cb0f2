//go:build unix

package rundir

import (
	"io/fs"
	"syscall"

	"golang.org/x/sys/unix"
)

// ownerOf returns the id of the user that a file belongs to.
func ownerOf(info fs.FileInfo) (uid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(st.Uid), true
}

// writable reports whether files can be made in a folder. That the system is mounted read-only counts too.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }
