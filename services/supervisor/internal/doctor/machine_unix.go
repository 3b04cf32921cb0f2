//go:build unix

package doctor

import (
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// own reports whether a file belongs to this user, or to root.
func own(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return !ok || int(st.Uid) == os.Geteuid()
}

// writable reports whether this user can make files in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// space looks at how much room there is where acphost writes.
func space(in area, dir string) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		in.warn("free space", dir+": "+err.Error(), "")
		return
	}
	free := st.Bavail * uint64(st.Bsize)
	detail := size(free) + " in " + dir
	switch {
	case free < noSpace:
		in.problem("free space", detail, "make room: records of decisions and sessions cannot be written")
	case free < littleSpace:
		in.warn("free space", detail, "make room soon")
	default:
		in.ok("free space", detail)
	}
}
