//go:build unix

package config

import (
	"io/fs"
	"syscall"
)

// ownerOf returns the ids of the user and of the group that a file belongs to.
func ownerOf(info fs.FileInfo) (uid, gid int, known bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, false
	}
	return int(st.Uid), int(st.Gid), true
}
