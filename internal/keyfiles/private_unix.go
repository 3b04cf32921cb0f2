//go:build unix

package keyfiles

import (
	"io/fs"
	"os"
	"syscall"
)

// forOthers reports whether others than its owner can read a file or write to it. A group may read what belongs to root: that
// is how secrets are handed to services.
func forOthers(info fs.FileInfo) bool {
	mode := info.Mode().Perm()
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid == 0 && os.Geteuid() != 0 {
		return mode&0o037 != 0
	}
	return mode&0o077 != 0
}
