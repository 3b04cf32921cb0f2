//go:build !unix

package rundir

import (
	"io/fs"
	"os"
)

// ownerOf knows of no owners here.
func ownerOf(fs.FileInfo) (uid int, known bool) { return 0, false }

// writable takes every folder that is there for one.
func writable(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.IsDir()
}
