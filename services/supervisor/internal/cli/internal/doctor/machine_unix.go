//go:build unix

package doctor

import (
	"golang.org/x/sys/unix"
)

// writable reports whether this user can create files in a folder.
func writable(dir string) bool { return unix.Access(dir, unix.W_OK|unix.X_OK) == nil }

// space checks the free space of a file system that acphost writes to.
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
