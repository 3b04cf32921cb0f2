package files

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/acphost/acphost/internal/git"
)

// maxEntries limits the folder entries that are searched for other names of a file.
const maxEntries = 200_000

// names is the result of searching for a file's names.
type names int

const (
	known  names = iota // all were found, and none belongs to git
	astray              // some were not found
	gits                // one belongs to git
)

var errEnough = errors.New("enough")

// namesOf searches for all names of a file with several hard links, below the roots. Content written to it in place
// appears under all of them.
func namesOf(m meta, roots []Root) names {
	var found uint64
	left, own := maxEntries, false
	seen := map[string]bool{}
	w := &walker{}
	for _, root := range roots {
		at, err := w.walk(root.Path, everywhere, false)
		if err != nil {
			continue
		}
		err = filepath.WalkDir(at.path, func(path string, entry fs.DirEntry, err error) error {
			if left--; left < 0 {
				return errEnough
			}
			if err != nil || !entry.Type().IsRegular() {
				return nil //nolint:nilerr // unreadable entries are not found
			}
			is, err := lstat(path)
			if err != nil || is.identity != m.identity || seen[path] {
				return nil //nolint:nilerr // removed entries are not found either
			}
			seen[path] = true
			found++
			if own = git.Own(path) || git.Completes(path); own || found >= m.links {
				return errEnough
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	switch {
	case own:
		return gits
	case found >= m.links:
		return known
	}
	return astray
}
