package files

import (
	"errors"
	"io/fs"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

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

// protection are the paths that nobody may touch, and where they lead. That is looked up at every call, or, if a watch tells
// of each change, after a change alone. Safe for concurrent use.
type protection struct {
	paths []protectedPath
	names []string // of all paths, as asked and as resolved when they were configured

	mu    sync.Mutex
	watch *watch   // nil: there is none
	known *watched // what watch saw; nil if there is no watch
}

// standing is where protected paths lead.
type standing struct {
	objects []identity // what is there
	names   []string   // where those lead that are not there
}

// watched is what a watch saw of protected paths. It never changes.
type watched struct {
	standing
	unwatched []protectedPath // changes of these are not told
}

func newProtection(of []string) (*protection, error) {
	p := &protection{}
	for _, path := range of {
		if !filepath.IsAbs(path) {
			return nil, errRelative(path)
		}
		path := newProtectedPath(path)
		p.paths = append(p.paths, path)
		for _, name := range [...]string{path.asked, path.resolved} {
			if !slices.Contains(p.names, name) {
				p.names = append(p.names, name)
			}
		}
	}
	return p, nil
}

// follow begins to watch the paths, with the watch of the protection that p replaces if that has one. Calls that still go by
// the old one look the paths up.
func (p *protection) follow(old *protection) {
	old.mu.Lock()
	w := old.watch
	old.watch, old.known = nil, nil
	old.mu.Unlock()
	if len(p.paths) == 0 {
		return
	}
	if w == nil {
		w = newWatch()
	}
	if w != nil {
		p.mu.Lock()
		p.watch, p.known = w, w.look(p.paths)
		p.mu.Unlock()
	}
}

// now returns where the paths lead.
func (p *protection) now() standing {
	is, rest := p.seen()
	for _, path := range rest {
		path.look(&is)
	}
	return is
}

// seen returns what is known of the paths, and those that have to be looked up. The lock is not held while they are: one
// may lie on a file system that does not answer.
func (p *protection) seen() (standing, []protectedPath) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch == nil {
		return standing{}, p.paths
	}
	if p.watch.changed() {
		p.known = p.watch.look(p.paths)
	}
	return p.known.standing, p.known.unwatched
}

// look finds where the path leads.
func (p protectedPath) look(is *standing) {
	if m, err := stat(p.asked); err == nil {
		is.objects = append(is.objects, m.identity)
	} else if at, err := new(walker).walk(p.asked, everywhere, false); err == nil {
		// It is not there yet, and links on its way may have changed since it was configured.
		is.names = append(is.names, at.path)
	}
}

// guards says that a place is protected: by its name, as asked or as resolved, or because it or a folder on its way is
// a protected one under another name (a link, a bind mount, a second hard link, another case).
func (s *state) guards(p *place) (bool, error) {
	if len(s.protected.paths) == 0 {
		return false, nil
	}
	now := s.protected.now()
	if slices.ContainsFunc(p.trail, func(id identity) bool { return slices.Contains(now.objects, id) }) {
		return true, nil
	}
	asked := filepath.Clean(p.asked)
	covers := func(name string) bool { return below(p.path, name) || below(asked, name) }
	if slices.ContainsFunc(s.protected.names, covers) || slices.ContainsFunc(now.names, covers) {
		return true, nil
	}
	if p.exists() {
		return s.guardsLinked(p.meta)
	}
	return false, nil
}

// guardsOpened is guards for what was really opened, which may be another file than the one that was located.
func (s *state) guardsOpened(m meta) (bool, error) {
	if slices.Contains(s.protected.now().objects, m.identity) {
		return true, nil
	}
	return s.guardsLinked(m)
}

// guardsLinked says that a file is a second hard link to one below a protected folder. Only files with several links
// cost the search.
func (s *state) guardsLinked(m meta) (bool, error) {
	if !m.isRegular() || m.links < 2 {
		return false, nil
	}
	for _, protected := range s.protected.paths {
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
