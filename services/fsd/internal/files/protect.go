package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/paths"
)

// foldNames: names that differ in case alone are taken as one when a path is compared with a protected one that is not
// there yet. What is there is compared by identity, on every system.
const foldNames = runtime.GOOS == "darwin"

// protectedPath is a file or folder that nobody may touch, by the names that are known for it.
type protectedPath struct {
	asked    string // clean
	resolved string // when it was configured
}

func newProtectedPath(path string) protectedPath {
	p := protectedPath{asked: filepath.Clean(path)}
	p.resolved = p.asked
	if at, err := new(walker).walk(p.asked, everywhere, false); err == nil {
		p.resolved = at.path
	}
	return p
}

// guards says that a place is protected: by its name, as asked or as resolved, or because it or a folder on its way is
// a protected one under another name (a link, a bind mount, a second hard link, another case).
func (s *state) guards(p *place) (bool, error) {
	if len(s.protected) == 0 {
		return false, nil
	}
	asked := filepath.Clean(p.asked)
	for _, protected := range s.protected {
		names := [3]string{protected.asked, protected.resolved}
		m, err := stat(protected.asked)
		if err == nil {
			for _, id := range p.trail {
				if id == m.identity {
					return true, nil
				}
			}
		} else if now, err := new(walker).walk(protected.asked, everywhere, false); err == nil {
			// It is not there yet, and links on its way may have changed since it was configured.
			names[2] = now.path
		}
		for _, name := range names {
			if name != "" && (below(p.path, name) || below(asked, name)) {
				return true, nil
			}
		}
	}
	if p.exists() {
		return s.guardsLinked(p.meta)
	}
	return false, nil
}

// guardsOpened is guards for what was really opened, which may be another file than the one that was located.
func (s *state) guardsOpened(m meta) (bool, error) {
	for _, protected := range s.protected {
		if at, err := stat(protected.asked); err == nil && at.identity == m.identity {
			return true, nil
		}
	}
	return s.guardsLinked(m)
}

// guardsLinked says that a file is a second hard link to one below a protected folder. Only files with several links
// cost the search.
func (s *state) guardsLinked(m meta) (bool, error) {
	if !m.isRegular() || m.links < 2 {
		return false, nil
	}
	for _, protected := range s.protected {
		at, err := stat(protected.asked)
		if err != nil || !at.isDirectory() || at.dev != m.dev {
			continue
		}
		found, err := holds(protected.asked, m.identity)
		if err != nil {
			return false, errSystem("compare with acphost's own", protected.asked, err)
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

var errFound = errors.New("found")

// holds says that some file below folder is the one named by id. The folder may change while it is searched.
func holds(folder string, id identity) (bool, error) {
	// The trailing slash makes the walk enter a folder that is reached through a link.
	err := filepath.WalkDir(folder+"/", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return err
		case !entry.Type().IsRegular():
			return nil
		}
		m, err := lstat(path)
		switch {
		case errors.Is(err, unix.ENOENT):
			return nil
		case err != nil:
			return err
		case m.identity == id:
			return errFound
		}
		return nil
	})
	if errors.Is(err, errFound) {
		return true, nil
	}
	return false, err
}

func below(path, folder string) bool {
	if foldNames {
		return paths.Below(strings.ToLower(folder), strings.ToLower(path))
	}
	return paths.Below(folder, path)
}
