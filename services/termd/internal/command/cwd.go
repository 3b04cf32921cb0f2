package command

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/acphost/acphost/internal/paths"
)

// workingDirectory checks the directory that a command is to run in and returns it as asked and as it really is. It must
// lie inside of the roots either way.
func workingDirectory(asked string, roots, protected []string) (spelled string, folder Folder, err error) {
	if len(roots) == 0 {
		return "", Folder{}, Invalid("context: there are no roots")
	}
	if asked == "" {
		asked = roots[0]
	}
	if !filepath.IsAbs(asked) {
		return "", Folder{}, Invalid("cwd: %q is not an absolute path", asked)
	}
	if strings.Contains(asked, "\x00") {
		return "", Folder{}, Invalid("cwd: %q has a NUL character in it", asked)
	}
	spelled = filepath.Clean(asked)
	bounds := make([]string, 0, 2*len(roots))
	for _, root := range roots {
		bounds = append(bounds, filepath.Clean(root))
		if realRoot, err := filepath.EvalSymlinks(root); err == nil {
			bounds = append(bounds, realRoot)
		}
	}
	// What lies outside is refused before it is looked at: whether it is there is nobody's business.
	if !slices.ContainsFunc(bounds, func(b string) bool { return paths.Below(b, spelled) }) {
		return "", Folder{}, Invalid("Path escapes workspace: %s", asked)
	}
	real, err := filepath.EvalSymlinks(spelled)
	if err != nil {
		return "", Folder{}, Invalid("cwd: %s cannot be used: %s", asked, unusable(err))
	}
	info, err := os.Stat(real)
	if err != nil {
		return "", Folder{}, Invalid("cwd: %s cannot be used: %s", asked, unusable(err))
	}
	if !contains(roots, real) {
		return "", Folder{}, Invalid("Path escapes workspace: %s", asked)
	}
	if !info.IsDir() {
		return "", Folder{}, Invalid("cwd: %s is not a directory", asked)
	}
	if contains(protected, real) || slices.ContainsFunc(protected, func(p string) bool { return paths.Below(filepath.Clean(p), spelled) }) {
		return "", Folder{}, &failure{ErrProtected, "cwd: " + asked + " belongs to acphost itself"}
	}
	folder, ok := folderOf(real, info)
	if !ok {
		return "", Folder{}, Invalid("cwd: %s cannot be told from others here", asked)
	}
	return spelled, folder, nil
}

func folderOf(path string, info os.FileInfo) (Folder, bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return Folder{}, false
	}
	return Folder{Path: path, Device: uint64(st.Dev), Inode: st.Ino}, true //nolint:unconvert // not so on every system
}

// Is reports whether a file is that folder.
func (f Folder) Is(info os.FileInfo) bool {
	other, ok := folderOf(f.Path, info)
	return ok && other == f
}

// contains reports whether the real path lies in one of the directories, by their real paths.
func contains(dirs []string, real string) bool {
	return slices.ContainsFunc(dirs, func(dir string) bool {
		d, err := filepath.EvalSymlinks(dir)
		return err == nil && paths.Below(d, real)
	})
}

func unusable(err error) string {
	var errno syscall.Errno
	if errors.As(err, &errno) {
		if errno == syscall.ENOENT {
			return "it is missing"
		}
		return errno.Error()
	}
	return err.Error()
}
