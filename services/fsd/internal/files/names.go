package files

import (
	"errors"
	"io/fs"
	"path/filepath"

	"github.com/acphost/acphost/internal/git"
)

// maxEntries limits the folder entries that are searched for other names of a file.
const maxEntries = 200_000

// linkSearch is the result of searching for a file's names.
type linkSearch int

const (
	allFound    linkSearch = iota // all were found, and none belongs to git
	notAllFound                   // some were not found
	ownedByGit                    // one belongs to git
)

var errEnough = errors.New("enough")

// findLinks searches for all names of a file with several hard links, below the roots. Content written to it in place
// appears under all of them.
func findLinks(m meta, roots []Root) linkSearch {
	var found uint64
	remaining, gitOwned := maxEntries, false
	seen := map[string]bool{}
	w := &walker{}
	for _, root := range roots {
		start, err := w.walk(root.Path, anyPath, false)
		if err != nil {
			continue
		}
		err = filepath.WalkDir(start.path, func(path string, entry fs.DirEntry, err error) error {
			if remaining--; remaining < 0 {
				return errEnough
			}
			if err != nil || !entry.Type().IsRegular() {
				return nil //nolint:nilerr // unreadable entries are not found
			}
			entryMeta, err := lstat(path)
			if err != nil || entryMeta.identity != m.identity || seen[path] {
				return nil //nolint:nilerr // removed entries are not found either
			}
			seen[path] = true
			found++
			if gitOwned = git.Own(path) || git.Completes(path); gitOwned || found >= m.links {
				return errEnough
			}
			return nil
		})
		if err != nil {
			break
		}
	}
	switch {
	case gitOwned:
		return ownedByGit
	case found >= m.links:
		return allFound
	}
	return notAllFound
}
