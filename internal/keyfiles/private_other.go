//go:build !unix

package keyfiles

import "io/fs"

// forOthers cannot tell here.
func forOthers(fs.FileInfo) bool { return false }
