//go:build !unix

package config

import "io/fs"

// ownerOf knows of no owners here.
func ownerOf(fs.FileInfo) (uid, gid int, known bool) { return 0, 0, false }
