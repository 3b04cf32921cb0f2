//go:build !unix

package tokens

import "io/fs"

// owned cannot tell here.
func owned(fs.FileInfo) error { return nil }
