// Package paths resolves paths. It reads the file system and changes nothing there. Its results may be out of date at
// once: a caller that opens the path has to verify it.
package paths

import (
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks limits the symbolic links in a path. The system's limit is 40, that of filepath.EvalSymlinks 255.
const maxLinks = 255

// Real resolves symbolic links as far as a path exists and keeps the rest of its name. For a link to a path that does
// not exist yet, it returns that path. It returns a path that it cannot resolve unchanged. It reads each name of the
// path once.
func Real(path string) string { return (*Cache)(nil).Real(path) }

// Kernel reports whether the name of a path lies in a file system in which the kernel shows processes and devices as
// files. Such a path may lead to another file for each process that opens it.
func Kernel(path string) bool {
	return Below("/proc", path) || Below("/sys", path) || Below("/dev", path)
}

// RootMissing is the error message for a session's folder that was removed after the session began. fsd and termd both
// use it.
func RootMissing(root string) string {
	return "the session's folder " + root + " is missing: make it again, or open a session in another folder"
}

// Below reports whether a path is a folder or lies in it, by name only. Both must be clean.
func Below(folder, path string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder) && path[len(folder)] == filepath.Separator
}

// Under joins a folder and a path in it. It does not clean a path with "..": after a symbolic link, only the file
// system knows where the path leads.
func Under(folder, path string) string {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return strings.TrimSuffix(folder, "/") + "/" + path
	}
	return filepath.Join(folder, path)
}

// NoFolder reports whether a path certainly does not lead to a folder.
func NoFolder(path string) bool { return (*Cache)(nil).NoFolder(path) }

// OfProcess reports whether a path leads through /proc, by its name or by a link. Such a path may lead elsewhere for
// another process: /proc/self/cwd is the working directory of the process that opens it.
func OfProcess(path string) bool { return (*Cache)(nil).OfProcess(path) }
