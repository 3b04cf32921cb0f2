package paths

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Cache has the state of each path when it was first read, so that one decision reads each name once. It must not
// outlive the decision, because it does not read a path again. A nil Cache caches nothing and reads each time. It is
// not safe for concurrent use.
type Cache struct {
	names      map[string]name
	resolved   map[string]resolution
	executable map[string]bool
	itself     map[string]bool // paths whose last name is not followed
}

// NewCache returns an empty Cache.
func NewCache() *Cache {
	return &Cache{names: map[string]name{}, resolved: map[string]resolution{}, executable: map[string]bool{}}
}

// name is the file at a path. A symbolic link as the last name is not followed.
type name struct {
	is kind
	to string // the target of a link
}

type kind byte

const (
	unreadable kind = iota // its kind is unknown
	missing
	folder
	link
	other
)

// at returns the file at a path.
func (s *Cache) at(path string) name {
	if s == nil {
		return lookAt(path)
	}
	n, known := s.names[path]
	if known {
		return n
	}
	if end := strings.LastIndexByte(path, '/'); end > 0 && s.names[path[:end]].is == missing {
		n.is = missing
	} else {
		n = lookAt(path)
	}
	s.names[path] = n
	return n
}

// NoFollow makes further look-ups of a path end at its last name, also if that is a symbolic link: the path names the
// link itself.
func (s *Cache) NoFollow(path string) {
	if s.itself[path] {
		return
	}
	if s.itself == nil {
		s.itself = map[string]bool{}
	}
	s.itself[path] = true
	if s.at(path).is == link {
		s.names[path] = name{is: other}
		clear(s.resolved)
	}
}

// NamesItself reports whether NoFollow was called for a path. It returns false for a nil Cache.
func (s *Cache) NamesItself(path string) bool { return s != nil && s.itself[path] }

func lookAt(path string) name {
	var st syscall.Stat_t // os.Lstat allocates an error or a fs.FileInfo each time
	switch err := again(func() error { return syscall.Lstat(path, &st) }); {
	case errors.Is(err, syscall.ENOENT):
		return name{is: missing}
	case err != nil:
		return name{is: unreadable}
	}
	switch st.Mode & syscall.S_IFMT {
	case syscall.S_IFDIR:
		return name{is: folder}
	case syscall.S_IFLNK:
		to, err := os.Readlink(path)
		if err != nil {
			return name{is: unreadable}
		}
		return name{is: link, to: to}
	}
	return name{is: other}
}

// again repeats a system call until no signal interrupts it.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// resolution is the result of resolving a path.
type resolution struct {
	real  string
	there bool // the path exists, and was resolved to the end
	plain bool // none of its existing names is a link
}

// Real is like the function Real, with cached names.
func (s *Cache) Real(path string) string { return s.follow(path).real }

// Existing is Real for a path that must exist. ok is false if it does not exist or cannot be resolved.
func (s *Cache) Existing(path string) (real string, ok bool) {
	r := s.follow(path)
	return r.real, r.there
}

// Plain reports whether a path is absolute and clean, and none of its existing names is a link, so that it leads where
// its text names. It returns false for a nil Cache.
func (s *Cache) Plain(path string) bool {
	if s == nil || !filepath.IsAbs(path) {
		return false
	}
	r := s.follow(path)
	return r.plain && r.real == path
}

func (s *Cache) follow(path string) resolution {
	if s == nil {
		return s.walk(path)
	}
	l, known := s.resolved[path]
	if !known {
		l = s.walk(path)
		s.resolved[path] = l
	}
	return l
}

func (s *Cache) walk(path string) resolution {
	at, links := ".", 0
	if filepath.IsAbs(path) {
		at = "/"
	}
	for rest := path; rest != ""; {
		part, behind, more := strings.Cut(rest, "/")
		switch part {
		case "", ".":
			rest = behind
			continue
		case "..":
			at, rest = filepath.Join(at, ".."), behind
			continue
		}
		var next string
		if begin := len(path) - len(rest); links == 0 && begin > 1 && path[:begin-1] == at || links == 0 && begin == 1 && at == "/" {
			next = path[:begin+len(part)] // most paths are clean and have no link
		} else {
			next = filepath.Join(at, part)
		}
		n := s.at(next)
		switch n.is {
		case missing:
			return resolution{filepath.Join(at, rest), false, links == 0}
		case unreadable:
			return resolution{path, false, false}
		case folder, other:
			if more && n.is != folder {
				return resolution{path, false, false}
			}
			at, rest = next, behind
			continue
		}
		if links++; links > maxLinks {
			return resolution{path, false, false}
		}
		if filepath.IsAbs(n.to) {
			at = "/"
		}
		if rest = n.to; more {
			rest += "/" + behind
		}
	}
	return resolution{at, path != "", links == 0}
}

// Readlink returns the target of the symbolic link at a path as written. ok is false if there is no link, or it cannot
// be read.
func (s *Cache) Readlink(path string) (to string, ok bool) {
	n := s.at(path)
	return n.to, n.is == link
}

// Missing reports whether no file exists at a path, or can exist: the path or its last name is too long.
func (s *Cache) Missing(path string) bool {
	const longest = 255 // limit of a name, NAME_MAX
	return len(path) >= unix.PathMax || len(filepath.Base(path)) > longest || s.at(path).is == missing
}

// NoFolder is like the function NoFolder, with cached names.
func (s *Cache) NoFolder(path string) bool {
	if s != nil {
		switch n := s.at(path); n.is {
		case missing, other:
			return true
		case folder:
			return false
		}
	}
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() || errors.Is(err, fs.ErrNotExist)
}

// OfProcess is like the function OfProcess, with cached names.
func (s *Cache) OfProcess(path string) bool {
	at, links := "/", 0
	for rest := path; rest != ""; {
		name, behind, _ := strings.Cut(rest, "/")
		rest = behind
		switch name {
		case "", ".":
			continue
		case "..":
			at = filepath.Dir(at)
			continue
		}
		at = filepath.Join(at, name)
		if Below("/proc", at) {
			return true
		}
		to, ok := s.Readlink(at)
		if !ok {
			continue
		}
		if links++; links > maxLinks {
			return false // it cannot be resolved
		}
		rest = to + "/" + rest
		if at = filepath.Dir(at); filepath.IsAbs(to) {
			at = "/"
		}
	}
	return false
}

// Executable reports whether a path leads to a regular file that this process may execute.
func (s *Cache) Executable(file string) bool {
	if s == nil {
		return mayExecute(file)
	}
	is, known := s.executable[file]
	if !known {
		is = mayExecute(file)
		s.executable[file] = is
	}
	return is
}

func mayExecute(file string) bool {
	var st syscall.Stat_t
	err := again(func() error { return syscall.Stat(file, &st) })
	return err == nil && st.Mode&syscall.S_IFMT == syscall.S_IFREG && st.Mode&0o111 != 0 && unix.Access(file, unix.X_OK) == nil
}
