//go:build !linux && !darwin

package layers

import "io/fs"

// identity has nothing to tell here: size and time of change must do.
func identity(fs.FileInfo) (inode, changed uint64) { return 0, 0 }
