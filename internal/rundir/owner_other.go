//go:build !unix

package rundir

import (
	"io/fs"
	"os"
)

// ownerOf returns false: owners are unknown here.
func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }

// writable reports whether a folder exists. Permissions are unknown here.
func writable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
