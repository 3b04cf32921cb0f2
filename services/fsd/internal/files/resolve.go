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

// place is the target of a path.
type place struct {
	asked string
	// path is the absolute path without any symbolic link.
	path string
	// parent is the existing part of path, if path does not exist.
	parent string
	// missing are the names below parent that do not exist. Empty: path exists.
	missing []string
	// meta is the metadata of path, if it exists.
	meta meta
	// trail are the identities of every folder in path and, if it exists, of path itself.
	trail []identity
	// asDirectory: the path as asked has a trailing slash or dot.
	asDirectory bool
	// strayed: the path as asked leaves the roots, regardless of its target.
	strayed bool

	// Set by locate.
	root      *Root
	protected bool
}

func (p *place) exists() bool { return len(p.missing) == 0 }

// lane reports whether a path is inside a root, or between / and a root.
type lane func(path string) bool

// walker resolves paths as the kernel does: component by component, links first and ".." after. It caches the folders
// that it has read, so that roots and a path below them are read once. It is for one call, and not safe for concurrent
// use.
type walker struct {
	before func(folder string) error // if set, is called before a name in the folder is looked up, and may end the walk
	seen   []sighting
	buffer []byte
}

type sighting struct {
	path   string
	meta   meta
	target string
}

// walk resolves an absolute path. Missing names are no error: ".." then removes the missing name, because a name that
// does not exist cannot be a link. With strict, walk returns an Escapes error as soon as the path as asked leaves the
// lane, before it queries the file system there: otherwise an agent could learn which files exist outside.
func (w *walker) walk(asked string, allowed lane, strict bool) (*place, error) {
	p := &place{asked: asked}
	var (
		here    string // the current folder; "" is /
		lexical string // the path as asked so far, with dots taken literally
		rest    = asked
		own     = len(asked) // the last own bytes of rest are from the asked path, those before come from links
		links   int
	)
	for {
		rest = strings.TrimLeft(rest, "/")
		if rest == "" {
			break
		}
		mine := len(rest) <= own
		name, after, _ := strings.Cut(rest, "/")
		rest = after
		if name == "." {
			continue
		}
		if name == ".." {
			if n := len(p.missing); n > 0 {
				p.missing = p.missing[:n-1]
			} else if here != "" {
				here = here[:strings.LastIndexByte(here, '/')]
				p.trail = p.trail[:len(p.trail)-1]
			}
			if mine && lexical != "" {
				lexical = lexical[:strings.LastIndexByte(lexical, '/')]
			}
			continue
		}
		next := here + "/" + name
		if len(p.missing) > 0 {
			next = here + "/" + strings.Join(p.missing, "/") + "/" + name
		}
		if mine {
			lexical += "/" + name
			if !p.strayed && !allowed(lexical) && !allowed(next) {
				p.strayed = true
				if strict {
					return nil, errEscapes(asked)
				}
			}
		}
		if len(p.missing) > 0 {
			p.missing = append(p.missing, name)
			continue
		}
		if w.before != nil {
			if err := w.before(cmp.Or(here, "/")); err != nil {
				return nil, err
			}
		}
		s, err := w.look(next)
		if errors.Is(err, unix.ENOENT) {
			p.missing = append(p.missing, name)
			continue
		}
		if errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.EINVAL) {
			// A folder or link was replaced meanwhile.
			return nil, outsideOr(errSwapped(asked), asked, next, allowed)
		}
		if err != nil {
			return nil, outsideOr(errSystem("follow", asked, err), asked, next, allowed)
		}
		if s.meta.isLink() {
			if links++; links > maxLinks {
				return nil, outsideOr(fail(Invalid, "too many symbolic links: %s", asked), asked, next, allowed)
			}
			if mine {
				own = len(rest)
			}
			if strings.HasPrefix(s.target, "/") {
				here, p.trail = "", p.trail[:0]
			}
			if rest == "" {
				rest = s.target
			} else {
				rest = s.target + "/" + rest
			}
			continue
		}
		if rest != "" && !s.meta.isDirectory() {
			if strings.Trim(rest, "/") == "" {
				p.asDirectory = true
			} else {
				return nil, outsideOr(fail(Invalid, "%s is not a directory, so nothing can be below it: %s", next, asked), asked, next, allowed)
			}
		}
		here = next
		p.meta = s.meta
		p.trail = append(p.trail, s.meta.identity)
	}
	return w.arrive(p, here)
}

func (w *walker) arrive(p *place, here string) (*place, error) {
	if strings.HasSuffix(p.asked, "/") || strings.HasSuffix(p.asked, "/.") || strings.HasSuffix(p.asked, "/..") {
		p.asDirectory = true
	}
	p.parent = here
	if here == "" {
		p.parent = "/"
	}
	p.path = p.parent
	if len(p.missing) > 0 {
		p.path = here + "/" + strings.Join(p.missing, "/")
		p.meta = meta{}
		return p, nil
	}
	// ".." and "." can end on another folder than the last one that was read.
	m, err := w.look(p.path)
	if err != nil {
		return nil, errSystem("follow", p.asked, err)
	}
	p.meta = m.meta
	return p, nil
}

// look is lstat and readlink, once per path.
func (w *walker) look(path string) (sighting, error) {
	for i := range w.seen {
		if w.seen[i].path == path {
			return w.seen[i], nil
		}
	}
	m, err := lstat(path)
	if err != nil {
		return sighting{}, err
	}
	s := sighting{path: path, meta: m}
	if m.isLink() {
		if s.target, err = w.readlink(path); err != nil {
			return sighting{}, err
		}
	}
	w.seen = append(w.seen, s)
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

// outsideOr hides errors outside of the roots: the result there is always that the path escapes.
func outsideOr(err *Error, asked, at string, allowed lane) error {
	if !allowed(at) {
		return errEscapes(asked)
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
