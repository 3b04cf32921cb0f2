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

// Seen remembers what stood at each path when it was looked at first, so that a question that is decided at one moment
// looks once at each name. It must not outlive its question: what it says is not looked at again. A nil Seen remembers
// nothing, and looks each time. It is not for concurrent use.
type Seen struct {
	names      map[string]name
	led        map[string]led
	executable map[string]bool
}

// NewSeen returns one that has seen nothing yet.
func NewSeen() *Seen {
	return &Seen{names: map[string]name{}, led: map[string]led{}, executable: map[string]bool{}}
}

// name is what stands at a path, by its last name: a link is not followed.
type name struct {
	is kind
	to string // where a link leads
}

type kind byte

const (
	unreadable kind = iota // it cannot be told
	missing
	folder
	link
	other
)

// at is what stands at a path.
func (s *Seen) at(path string) name {
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

func lookAt(path string) name {
	var st syscall.Stat_t // os.Lstat makes an error or a fs.FileInfo each time
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

// again makes a system call until no signal interrupts it.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// led is where a path leads.
type led struct {
	real  string
	there bool // it is there, and all of it could be followed
	plain bool // none of its names is a link, as far as they are there
}

// Real is Real, by what has been seen.
func (s *Seen) Real(path string) string { return s.follow(path).real }

// Existing is Real for a path that has to be there; not ok: it is not, or cannot be followed.
func (s *Seen) Existing(path string) (real string, ok bool) {
	led := s.follow(path)
	return led.real, led.there
}

// Plain reports whether it has been seen that a path is absolute and clean, and that none of its names is a link, as
// far as they are there: it leads where it reads. A nil Seen says so of none.
func (s *Seen) Plain(path string) bool {
	if s == nil || !filepath.IsAbs(path) {
		return false
	}
	led := s.follow(path)
	return led.plain && led.real == path
}

func (s *Seen) follow(path string) led {
	if s == nil {
		return s.walk(path)
	}
	l, known := s.led[path]
	if !known {
		l = s.walk(path)
		s.led[path] = l
	}
	return l
}

func (s *Seen) walk(path string) led {
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
			return led{filepath.Join(at, rest), false, links == 0}
		case unreadable:
			return led{path, false, false}
		case folder, other:
			if more && n.is != folder {
				return led{path, false, false}
			}
			at, rest = next, behind
			continue
		}
		if links++; links > maxLinks {
			return led{path, false, false}
		}
		if filepath.IsAbs(n.to) {
			at = "/"
		}
		if rest = n.to; more {
			rest += "/" + behind
		}
	}
	return led{at, path != "", links == 0}
}

// Readlink is where the symbolic link at a path leads, as it is written; not ok: there is none, or it cannot be read.
func (s *Seen) Readlink(path string) (to string, ok bool) {
	n := s.at(path)
	return n.to, n.is == link
}

// Missing reports whether nothing stands at a path, or can: it, or its last name, is too long.
func (s *Seen) Missing(path string) bool {
	const longest = 255 // of a name, NAME_MAX
	return len(path) >= unix.PathMax || len(filepath.Base(path)) > longest || s.at(path).is == missing
}

// NoFolder is NoFolder, by what has been seen.
func (s *Seen) NoFolder(path string) bool {
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

// OfProcess is OfProcess, by what has been seen.
func (s *Seen) OfProcess(path string) bool {
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
			return false // it leads nowhere
		}
		rest = to + "/" + rest
		if at = filepath.Dir(at); filepath.IsAbs(to) {
			at = "/"
		}
	}
	return false
}

// Executable reports whether a file, by where its path leads, is a regular one that we may execute.
func (s *Seen) Executable(file string) bool {
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
