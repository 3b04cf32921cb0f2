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

// foldNames ignores case when a path is compared with a protected path that does not exist yet. Existing files are
// compared by identity on every system.
const foldNames = runtime.GOOS == "darwin"

// protectedPath is a file or folder that must not be accessed, with its known names.
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

// protection are the protected paths and their targets. The targets are looked up at every call or, if a watch reports
// changes, only after a change. Safe for concurrent use.
type protection struct {
	paths []protectedPath
	names []string // all paths, as asked and as resolved when they were configured

	mu    sync.Mutex
	watch *watch   // nil: there is none
	known *watched // the watch's last look; nil if there is no watch
}

// standing is the current state of protected paths.
type standing struct {
	objects []identity // existing targets
	names   []string   // resolved paths of targets that do not exist
}

// watched is the result of a watch's look at protected paths. It is immutable.
type watched struct {
	standing
	unwatched []protectedPath // changes of these are not reported
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

// follow starts to watch the paths, with the watch of the protection that p replaces, if that has one. Calls that still
// use the old protection look the paths up.
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

// now returns the current state of the paths.
func (p *protection) now() standing {
	is, rest := p.seen()
	for _, path := range rest {
		path.look(&is)
	}
	return is
}

// seen returns the known state of the paths, and the paths that must be looked up. The lock is not held during the
// lookup: a path may lie on a file system that does not answer.
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

// look adds the target of the path to is.
func (p protectedPath) look(is *standing) {
	if m, err := stat(p.asked); err == nil {
		is.objects = append(is.objects, m.identity)
	} else if at, err := new(walker).walk(p.asked, everywhere, false); err == nil {
		// It does not exist yet, and links in its path may have changed since it was configured.
		is.names = append(is.names, at.path)
	}
}

// guards reports whether a place is protected: by its name, as asked or as resolved, or because the place or a folder
// in its path is protected under another name (a link, a bind mount, a second hard link, another case).
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

// guardsOpened is guards for the opened file, which may differ from the located one.
func (s *state) guardsOpened(m meta) (bool, error) {
	if slices.Contains(s.protected.now().objects, m.identity) {
		return true, nil
	}
	return s.guardsLinked(m)
}

// guardsLinked reports whether a file is a second hard link to a file below a protected folder. Only files with several
// links need the search.
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

// holds reports whether a file below folder has the identity id. The folder may change during the search.
func holds(folder string, id identity) (bool, error) {
	// With the trailing slash, the walk enters a folder that is reached through a link.
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
