package files

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is Linux' PATH_MAX without its NUL. Longer paths cannot be opened, and would only bloat error texts.
const maxPath = 4095

// maxLinks limits the symbolic links in a path: Linux' own limit.
const maxLinks = 40

// resolvedPath is the target of a path.
type resolvedPath struct {
	requested string
	// path is the absolute path without any symbolic link.
	path string
	// parent is the existing part of path, if path does not exist.
	parent string
	// missing are the names below parent that do not exist. Empty: path exists.
	missing []string
	// meta is the metadata of path, if it exists.
	meta meta
	// identities are the identities of every folder in path and, if it exists, of path itself.
	identities []identity
	// asDirectory: the path as requested has a trailing slash or dot.
	asDirectory bool
	// leavesRoots: the path as requested leaves the roots, regardless of its target.
	leavesRoots bool

	// Set by locate.
	root      *Root
	protected bool
}

func (p *resolvedPath) exists() bool { return len(p.missing) == 0 }

// pathFilter reports whether a path is inside a root, or between / and a root.
type pathFilter func(path string) bool

// walker resolves paths as the kernel does: component by component, links first and ".." after. It caches the folders
// that it has read, so that roots and a path below them are read once. It is for one call, and not safe for concurrent
// use.
type walker struct {
	beforeLookup func(folder string) error // called before a lookup in the folder, may end the walk; nil: none
	cache        []lookupResult
	buffer       []byte
}

type lookupResult struct {
	path       string
	meta       meta
	linkTarget string
}

// walk resolves an absolute path. Missing names are no error: ".." then removes the missing name, because a name that
// does not exist cannot be a link. With strict, walk returns an Escapes error as soon as the path as requested leaves
// the allowed paths, before it queries the file system there: otherwise an agent could learn which files exist outside.
func (w *walker) walk(requested string, allowed pathFilter, strict bool) (*resolvedPath, error) {
	p := &resolvedPath{requested: requested}
	var (
		folder   string // the current folder; "" is /
		lexical  string // the path as requested so far, with dots taken literally
		rest     = requested
		ownBytes = len(requested) // the last ownBytes bytes of rest are from the requested path, those before come from links
		links    int
	)
	for {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			break
		}
		requestedPart := len(rest) <= ownBytes
		name, after, _ := strings.Cut(rest, "/")
		rest = after
		if name == "." {
			continue
		}
		if name == ".." {
			if n := len(p.missing); n > 0 {
				p.missing = p.missing[:n-1]
			} else if folder != "" {
				folder = folder[:strings.LastIndexByte(folder, '/')]
				p.identities = p.identities[:len(p.identities)-1]
			}
			if requestedPart && lexical != "" {
				lexical = lexical[:strings.LastIndexByte(lexical, '/')]
			}
			continue
		}
		next := folder + "/" + name
		if len(p.missing) > 0 {
			next = folder + "/" + strings.Join(p.missing, "/") + "/" + name
		}
		if requestedPart {
			lexical += "/" + name
			if !p.leavesRoots && !allowed(lexical) && !allowed(next) {
				p.leavesRoots = true
				if strict {
					return nil, errEscapes(requested)
				}
			}
		}
		if len(p.missing) > 0 {
			p.missing = append(p.missing, name)
			continue
		}
		if w.beforeLookup != nil {
			if err := w.beforeLookup(cmp.Or(folder, "/")); err != nil {
				return nil, err
			}
		}
		s, err := w.lookup(next)
		if errors.Is(err, unix.ENOENT) {
			p.missing = append(p.missing, name)
			continue
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) {
			// A folder or link was replaced meanwhile.
			return nil, hideOutside(errSwapped(requested), requested, next, allowed)
		}
		if err != nil {
			return nil, hideOutside(errSystem("follow", requested, err), requested, next, allowed)
		}
		if s.meta.isLink() {
			if links++; links > maxLinks {
				return nil, hideOutside(fail(Invalid, "too many symbolic links: %s", requested), requested, next, allowed)
			}
			if requestedPart {
				ownBytes = len(rest)
			}
			if strings.HasPrefix(s.linkTarget, "/") {
				folder, p.identities = "", p.identities[:0]
			}
			if rest == "" {
				rest = s.linkTarget
			} else {
				rest = s.linkTarget + "/" + rest
			}
			continue
		}
		if rest != "" && !s.meta.isDirectory() {
			if strings.Trim(rest, "/") == "" {
				p.asDirectory = true
			} else {
				return nil, hideOutside(fail(Invalid, "%s is not a directory, so nothing can be below it: %s", next, requested), requested, next, allowed)
			}
		}
		folder = next
		p.meta = s.meta
		p.identities = append(p.identities, s.meta.identity)
	}
	return w.finish(p, folder)
}

func (w *walker) finish(p *resolvedPath, folder string) (*resolvedPath, error) {
	if strings.HasSuffix(p.requested, "/") || strings.HasSuffix(p.requested, "/.") || strings.HasSuffix(p.requested, "/..") {
		p.asDirectory = true
	}
	p.parent = folder
	if folder == "" {
		p.parent = "/"
	}
	p.path = p.parent
	if len(p.missing) > 0 {
		p.path = folder + "/" + strings.Join(p.missing, "/")
		p.meta = meta{}
		return p, nil
	}
	// ".." and "." can end on another folder than the last one that was read.
	m, err := w.lookup(p.path)
	if err != nil {
		return nil, errSystem("follow", p.requested, err)
	}
	p.meta = m.meta
	return p, nil
}

// lookup is lstat and readlink, once per path.
func (w *walker) lookup(path string) (lookupResult, error) {
	for i := range w.cache {
		if w.cache[i].path == path {
			return w.cache[i], nil
		}
	}
	m, err := lstat(path)
	if err != nil {
		return lookupResult{}, err
	}
	s := lookupResult{path: path, meta: m}
	if m.isLink() {
		if s.linkTarget, err = w.readlink(path); err != nil {
			return lookupResult{}, err
		}
	}
	w.cache = append(w.cache, s)
	return s, nil
}

func (w *walker) readlink(path string) (string, error) {
	if w.buffer == nil {
		w.buffer = make([]byte, maxPath+1)
	}
	n, err := retried(func() (int, error) { return unix.Readlink(path, w.buffer) })
	if err != nil {
		return "", err
	}
	return string(w.buffer[:n]), nil
}

// hideOutside hides errors outside of the roots: the result there is always that the path escapes.
func hideOutside(err *Error, requested, at string, allowed pathFilter) error {
	if !allowed(at) {
		return errEscapes(requested)
	}
	return err
}

// checkPath rejects paths that are invalid on every file system.
func checkPath(path string) error {
	switch {
	case path == "":
		return fail(Invalid, "the path is empty: an absolute path is needed")
	case len(path) > maxPath:
		return fail(Invalid, "the path is %d bytes long, %d are allowed", len(path), maxPath)
	case strings.IndexByte(path, 0) >= 0:
		return fail(Invalid, "the path holds a NUL byte")
	case !filepath.IsAbs(path):
		return errRelative(path)
	}
	return nil
}
