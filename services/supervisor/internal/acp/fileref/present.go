package fileref

import (
	"os"
	"path/filepath"
)

// Present reports whether a regular file or a folder is at an absolute path below one of some folders on this machine. Links that
// lead out of the folder are not followed. It may be slow where the file system is.
func Present(folders []string, file string) bool {
	for _, folder := range folders {
		inside, err := filepath.Rel(folder, file)
		if err != nil || !filepath.IsAbs(folder) || !filepath.IsLocal(inside) {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			continue
		}
		info, err := root.Stat(inside)
		root.Close()
		if err == nil && (info.Mode().IsRegular() || info.IsDir()) {
			return true
		}
	}
	return false
}
