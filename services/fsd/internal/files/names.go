package files

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/acphost/acphost/internal/git"
)

// maxEntries is how many entries of folders are looked at for other names of a file.
const maxEntries = 200_000

// names says what is known of a file's names.
type names int

const (
	known  names = iota // all were found, and none is git's
	astray              // some were not found
	gits                // one is git's
)

var errEnough = errors.New("enough")

// namesOf looks for all names of a file with several hard links, below the roots. What is written to it in place is written
// under all of them.
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
				return nil //nolint:nilerr // what cannot be seen is not found
			}
			is, err := lstat(path)
			if err != nil || is.identity != m.identity || seen[path] {
				return nil //nolint:nilerr // so is what has gone
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
