// Package paths says where paths really lead, for those who judge them by that. It looks at the file system and changes
// nothing there. What it says may be out of date at once: whoever opens the path has to make sure.
package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks is how many links that lead nowhere are followed one after the other; the system gives up at 40.
const maxLinks = 40

// Real follows symbolic links as far as a path exists and keeps the rest of its name; of a link that leads nowhere yet it
// returns where it would lead. A path that it cannot follow is returned as it is.
func Real(path string) string {
	rest, links := "", 0
	for p := path; ; {
		real, err := filepath.EvalSymlinks(p)
		if err == nil {
			return filepath.Join(real, rest)
		}
		parent := filepath.Dir(p)
		if parent == p || !errors.Is(err, fs.ErrNotExist) {
			return path
		}
		if to, err := os.Readlink(p); err == nil {
			if links++; links > maxLinks {
				return path
			}
			if !filepath.IsAbs(to) {
				to = filepath.Join(Real(parent), to)
			}
			p = to
			continue
		}
		rest = filepath.Join(filepath.Base(p), rest)
		p = parent
	}
}

// Below reports whether a path is a folder or lies in it, by their names alone. Both must be clean.
func Below(folder, path string) bool {
	return path == folder || folder == "/" || strings.HasPrefix(path, folder) && path[len(folder)] == filepath.Separator
}
