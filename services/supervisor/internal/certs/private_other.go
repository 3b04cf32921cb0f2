//go:build !unix

package certs

import "io/fs"

// forOthers cannot tell here.
func forOthers(fs.FileInfo) bool { return false }
