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
	requested string // clean
	resolved  string // when it was configured
}

func newProtectedPath(path string) protectedPath {
	p := protectedPath{requested: filepath.Clean(path)}
	p.resolved = p.requested
	if target, err := new(walker).walk(p.requested, anyPath, false); err == nil {
		p.resolved = target.path
	}
	return p
}

// protection are the protected paths and their targets. The targets are looked up at every call or, if a watch reports
// changes, only after a change. Safe for concurrent use.
type protection struct {
	paths []protectedPath
	names []string // all paths, as requested and as resolved when they were configured

	mu     sync.Mutex
	watch  *watch       // nil if none exists
	result *watchResult // the last result of watch; nil if there is no watch
}

// protectedState is the current state of protected paths.
type protectedState struct {
	objects []identity // existing targets
	names   []string   // resolved paths of targets that do not exist
}

// watchResult is the result of watch.refresh. It is immutable.
type watchResult struct {
	protectedState
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
		for _, name := range [...]string{path.requested, path.resolved} {
			if !slices.Contains(p.names, name) {
				p.names = append(p.names, name)
			}
		}
	}
	return p, nil
}

// startWatch starts to watch the paths, with the watch of the protection that p replaces, if that has one. Calls that
// still use the old protection look the paths up.
func (p *protection) startWatch(old *protection) {
	old.mu.Lock()
	w := old.watch
	old.watch, old.result = nil, nil
	old.mu.Unlock()
	if len(p.paths) == 0 {
		return
	}
	if w == nil {
		w = newWatch()
	}
	if w != nil {
		p.mu.Lock()
		p.watch, p.result = w, w.refresh(p.paths)
		p.mu.Unlock()
	}
}

// current returns the current state of the paths.
func (p *protection) current() protectedState {
	state, rest := p.cached()
	for _, path := range rest {
		path.appendState(&state)
	}
	return state
}

// cached returns the known state of the paths, and the paths that must be looked up. The lock is not held during the
// lookup: a path may lie on a file system that does not answer.
func (p *protection) cached() (protectedState, []protectedPath) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.watch == nil {
		return protectedState{}, p.paths
	}
	if p.watch.changed() {
		p.result = p.watch.refresh(p.paths)
	}
	return p.result.protectedState, p.result.unwatched
}

// appendState adds the target of the path to state.
func (p protectedPath) appendState(state *protectedState) {
	if m, err := stat(p.requested); err == nil {
		state.objects = append(state.objects, m.identity)
	} else if target, err := new(walker).walk(p.requested, anyPath, false); err == nil {
		// It does not exist yet, and links in its path may have changed since it was configured.
		state.names = append(state.names, target.path)
	}
}

// isProtected reports whether a path is protected: by its name, as requested or as resolved, or because the path or a
// folder in its path is protected under another name (a link, a bind mount, a second hard link, another case).
func (s *state) isProtected(p *resolvedPath) (bool, error) {
	if len(s.protected.paths) == 0 {
		return false, nil
	}
	now := s.protected.current()
	if slices.ContainsFunc(p.identities, func(id identity) bool { return slices.Contains(now.objects, id) }) {
		return true, nil
	}
	requested := filepath.Clean(p.requested)
	covers := func(name string) bool { return below(p.path, name) || below(requested, name) }
	if slices.ContainsFunc(s.protected.names, covers) || slices.ContainsFunc(now.names, covers) {
		return true, nil
	}
	if p.exists() {
		return s.isLinkProtected(p.meta)
	}
	return false, nil
}

// isOpenedProtected is isProtected for the opened file, which may differ from the located one.
func (s *state) isOpenedProtected(m meta) (bool, error) {
	if slices.Contains(s.protected.current().objects, m.identity) {
		return true, nil
	}
	return s.isLinkProtected(m)
}

// isLinkProtected reports whether a file is a second hard link to a file below a protected folder. Only files with
// several links need the search.
func (s *state) isLinkProtected(m meta) (bool, error) {
	if !m.isRegular() || m.links < 2 {
		return false, nil
	}
	for _, protected := range s.protected.paths {
		target, err := stat(protected.requested)
		if err != nil || !target.isDirectory() || target.dev != m.dev {
			continue
		}
		found, err := containsFile(protected.requested, m.identity)
		if err != nil {
			return false, errSystem("compare with acphost's own", protected.requested, err)
		}
		if found {
			return true, nil
		}
	}
	return false, nil
}

var errFound = errors.New("found")

// containsFile reports whether a file below folder has the identity id. The folder may change during the search.
func containsFile(folder string, id identity) (bool, error) {
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
