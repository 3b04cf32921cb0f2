package files

import (
	"cmp"
	"errors"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// maxPath is Linux' PATH_MAX less its NUL; longer paths cannot be opened anyway, and would only bloat error texts.
const maxPath = 4095

// maxLinks is how many symbolic links one path may lead through: Linux' own limit.
const maxLinks = 40

// place is where a path leads.
type place struct {
	asked string
	// path is the absolute path without any symbolic link.
	path string
	// parent is the part of path that exists, if path does not.
	parent string
	// missing are the names below parent that are not there. Empty: path exists.
	missing []string
	// meta is that of path, if it exists.
	meta meta
	// trail are the identities of every folder that path leads through and, if it exists, of path itself.
	trail []identity
	// asDirectory: the path was asked for with a trailing slash or dot.
	asDirectory bool
	// strayed: the path as asked leaves the roots, whatever it leads to in the end.
	strayed bool

	// Filled by locate.
	root      *Root
	protected bool
}

func (p *place) exists() bool { return len(p.missing) == 0 }

// lane answers whether a path is inside a root, or on the way from / to one.
type lane func(path string) bool

// walker follows paths as the kernel does: component by component, links first and ".." after. It remembers the folders
// that it saw, so that roots and a path below them cost one look each. It is for one call, and not for concurrent use.
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

// walk resolves one absolute path. What is missing is not an error: ".." then takes back the missing name, for nothing
// that is not there can be a link. With strict, walk gives up with an Escapes error as soon as the path as asked leaves
// the lane, before the file system is asked about anything there: otherwise an agent could learn what exists outside.
func (w *walker) walk(asked string, allowed lane, strict bool) (*place, error) {
	p := &place{asked: asked}
	var (
		here    string // the folder arrived at; "" is /
		lexical string // the path as asked, so far, with dots taken literally
		rest    = asked
		own     = len(asked) // the last own bytes of rest are the asker's, those before come from links
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
			// What was a folder, or a link, a moment ago is none any more.
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
	// ".." and "." can end on a folder other than the last one looked at.
	m, err := w.look(p.path)
	if err != nil {
		return nil, errSystem("follow", p.asked, err)
	}
	p.meta = m.meta
	return p, nil
}

// look is lstat and readlink, once a path.
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

// outsideOr keeps what is outside the roots to ourselves: whatever went wrong there, the path escapes.
func outsideOr(err *Error, asked, at string, allowed lane) error {
	if !allowed(at) {
		return errEscapes(asked)
	}
	return err
}

// checkPath refuses what no file system needs to be asked about.
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
