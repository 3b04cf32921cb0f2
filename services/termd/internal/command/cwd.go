package command

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acphost/acphost/internal/paths"
)

// workingDirectory checks the directory of a command. It returns the cleaned path as requested, and the directory with
// all symbolic links resolved. Both must lie below one of the roots. If requested is empty, it is the first root.
func workingDirectory(requested string, roots, protected []string) (cleaned string, folder Folder, err error) {
	if len(roots) == 0 {
		return "", Folder{}, Invalid("context: there are no roots")
	}
	if requested == "" {
		requested = roots[0]
	}
	if !filepath.IsAbs(requested) {
		return "", Folder{}, Invalid("cwd: %q is not an absolute path", requested)
	}
	if strings.Contains(requested, "\x00") {
		return "", Folder{}, Invalid("cwd: %q has a NUL character in it", requested)
	}
	cleaned = filepath.Clean(requested)
	bounds := make([]string, 0, 2*len(roots))
	for _, root := range roots {
		bounds = append(bounds, filepath.Clean(root))
		if realRoot, err := filepath.EvalSymlinks(root); err == nil {
			bounds = append(bounds, realRoot)
		}
	}
	// A path outside of the roots is rejected before it is looked up, so that the error does not reveal whether it
	// exists.
	if !slices.ContainsFunc(bounds, func(b string) bool { return paths.Below(b, cleaned) }) {
		return "", Folder{}, Invalid("Path escapes workspace: %s", requested)
	}
	real, err := filepath.EvalSymlinks(cleaned)
	if errors.Is(err, fs.ErrNotExist) {
		for _, root := range roots {
			// The session's folder was removed: fsd rejects a path below it with the same message.
			if _, gone := os.Stat(root); errors.Is(gone, fs.ErrNotExist) && paths.Below(filepath.Clean(root), cleaned) {
				return "", Folder{}, Invalid("%s", paths.RootMissing(root))
			}
		}
	}
	if err != nil {
		return "", Folder{}, Invalid("cwd: %s cannot be used: %s", requested, causeOf(err))
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", Folder{}, Invalid("cwd: %s cannot be used: %s", requested, causeOf(err))
	}
	if !contains(roots, real) {
		return "", Folder{}, Invalid("Path escapes workspace: %s", requested)
	}
	if !info.IsDir() {
		return "", Folder{}, Invalid("cwd: %s is not a directory", requested)
	}
	if contains(protected, real) || slices.ContainsFunc(protected, func(p string) bool { return paths.Below(filepath.Clean(p), cleaned) }) {
		return "", Folder{}, &failure{ErrProtected, "cwd: " + requested + " belongs to acphost itself"}
	}
	folder, ok := folderOf(real, info)
	if !ok {
		return "", Folder{}, Invalid("cwd: %s cannot be identified: the system reports no device and inode", requested)
	}
	return cleaned, folder, nil
}

// folderOf returns the folder at path, which info describes; false: the system does not report device and inode.
func folderOf(path string, info os.FileInfo) (Folder, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Folder{}, false
	}
	return Folder{Path: path, Device: uint64(st.Dev), Inode: st.Ino}, true //nolint:unconvert // not so on every system
}

// Is reports whether info describes this folder: the same device and inode.
func (f Folder) Is(info os.FileInfo) bool {
	other, ok := folderOf(f.Path, info)
	return ok && other == f
}

// contains reports whether real, a path without symbolic links, lies below one of dirs after their links are resolved.
func contains(dirs []string, real string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		d, err := filepath.EvalSymlinks(dir)
		return err == nil && paths.Below(d, real)
	})
}

// causeOf returns the cause of err without the path.
func causeOf(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if errno == syscall.ENOENT {
			return "it is missing"
		}
		return errno.Error()
	}
	return err.Error()
}
