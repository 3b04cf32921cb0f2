package layers

import (
	"io/fs"
	"syscall"
)

// identity distinguishes files of the same name, and contents that were written within one tick of the clock.
func identity(info fs.FileInfo) (inode, changed uint64) {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ino, uint64(st.Ctimespec.Nano())
	}
	return 0, 0
}
