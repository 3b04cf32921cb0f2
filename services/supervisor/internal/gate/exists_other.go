//go:build !linux

package gate

import "os"

// exists reports whether a file exists; symbolic links are not followed in its last element.
func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}
