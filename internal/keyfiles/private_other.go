//go:build !unix

package keyfiles

import "io/fs"

// forOthers returns false, because permissions are unknown here.
func forOthers(fs.FileInfo) bool { return false }
