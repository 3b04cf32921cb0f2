// Package paths says where paths really lead, for those who judge them by that. It looks at the file system and changes
// nothing there. What it says may be out of date at once: whoever opens the path has to make sure.
package paths

import (
	"path/filepath"
	"slices"
	"strings"
)

// maxLinks is how many links of a path are followed; the system gives up at 40, filepath.EvalSymlinks at 255.
const maxLinks = 255

// Real follows symbolic links as far as a path exists and keeps the rest of its name; of a link that leads nowhere yet it
// returns where it would lead. A path that it cannot follow is returned as it is. Each name of the path is looked at once.
func Real(path string) string { return (*Seen)(nil).Real(path) }

// Kernel reports whether a path lies where the kernel shows processes and devices as if they were files, by its name alone.
// What is opened there may be another thing for every process that opens it.
func Kernel(path string) bool {
	return Below("/proc", path) || Below("/sys", path) || Below("/dev", path)
}

// RootMissing says of a session's folder that it was removed after the session began. fsd and termd refuse calls with it, in
// the same words.
func RootMissing(root string) string {
	return "the session's folder " + root + " is missing: make it again, or open a session in another folder"
}

// Below reports whether a path is a folder or lies in it, by their names alone. Both must be clean.
func Below(folder, path string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder) && path[len(folder)] == filepath.Separator
}

// Under joins a folder and a path in it. A path that goes up ("..") stays as it is written: behind a symbolic link, only the
// file system knows where it leads.
func Under(folder, path string) string {
	if slices.Contains(strings.Split(path, "/"), "..") {
		return strings.TrimSuffix(folder, "/") + "/" + path
	}
	return filepath.Join(folder, path)
}

// NoFolder reports whether it is certain that no folder is behind a path.
func NoFolder(path string) bool { return (*Seen)(nil).NoFolder(path) }

// OfProcess reports whether a path leads through /proc, by its name or by a link. There, it may lead elsewhere for another
// process: /proc/self/cwd is the folder of the process that looks.
func OfProcess(path string) bool { return (*Seen)(nil).OfProcess(path) }
