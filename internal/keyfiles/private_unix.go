//go:build unix

package keyfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// forOthers reports whether users other than the owner can read or write a file. A group may read files of root:
// service managers pass secrets to services in this way.
func forOthers(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && os.Geteuid() != 0 {
		return mode&0o037 != 0
	}
	return mode&0o077 != 0
}
