//go:build amd64 || arm64

package sandbox

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// place is a folder that is held open, and a name in it that was no symbolic link.
type place struct {
	dir  int    // to be closed
	base string // empty: dir itself is meant, which may be any file
	real string // absolute, or what /proc says of a file that has no name
	// Only of another mount namespace (see outsideOf): more paths by which it has to be allowed, that it is the memory of
	// those inside, or that nothing can be changed there.
	others       []string
	mine, sealed bool
	// within: it was found in a mount namespace that was made inside. The name base must not lead into another mount.
	within bool
}

// paths are all by which a place has to be allowed.
func (p place) paths() []string { return append([]string{p.real}, p.others...) }

// hold holds the file itself, and not what it leads to if it is a link.
func (p place) hold() (int, error) {
	switch {
	case p.base == "":
		return unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	case p.within:
		const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV
		return unix.Openat2(p.dir, p.base, &unix.OpenHow{Flags: held | unix.O_NOFOLLOW, Resolve: resolve})
	}
	return unix.Openat(p.dir, p.base, held|unix.O_NOFOLLOW, 0)
}

func (p place) close() { unix.Close(p.dir) }

// name is for calls that take a folder and a name.
func (p place) name() string {
	if p.base == "" {
		return "."
	}
	return p.base
}

// link leads to the held file by the descriptor. Only for a place without a base.
func (p place) link() string { return descriptor(p.dir) }

func descriptor(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

const held = unix.O_PATH | unix.O_CLOEXEC

// mostLinks is how many symbolic links the kernel follows in a path.
const mostLinks = 40

// find resolves a path as the process would. The folder of the last name is opened without the magic links of /proc,
// and held: nobody can put another folder in its place. Symbolic links as the last name are followed here, one at a
// time. As long as a process has the sandbox's root and mounts, paths mean to the sandbox what they mean to it.
func (c *call) find(dirfd int, p string, follow bool) (place, error) {
	if c.foreign() {
		return c.findWithin(dirfd, p, follow)
	}
	pl, err := c.findHere(dirfd, p, follow)
	if err != nil {
		return place{}, err
	}
	return c.settle(pl) // a folder may have been handed over from another namespace, that of another sandbox too
}

func (c *call) findHere(dirfd int, p string, follow bool) (place, error) {
	for range mostLinks {
		if p == "" {
			return place{}, unix.ENOENT
		}
		p = c.own(p)
		if n, rest, ok := c.below(p); ok {
			dirfd, p = n, rest
		}
		dir, base := split(p, follow)
		fd, err := c.openFolder(dirfd, p, dir, base)
		if err != nil {
			return place{}, err
		}
		pl, again, err := c.inFolder(fd, base, follow)
		if err != nil || again == "" {
			if err != nil {
				unix.Close(fd)
			}
			return pl, err
		}
		unix.Close(fd)
		p, dirfd = again, unix.AT_FDCWD
	}
	return place{}, unix.ELOOP
}

// split tells the last name of a path from its folder. base is empty if the path can only lead to a folder.
func split(p string, follow bool) (dir, base string) {
	trimmed := strings.TrimRight(p, "/")
	dir, base = path.Split(trimmed)
	if base == "." || base == ".." || trimmed == "" || trimmed != p && follow {
		return p, ""
	}
	if dir == "" {
		dir = "."
	}
	return dir, base
}

// below takes a path that leads through a folder that the process has open ("/proc/self/fd/4/name") for one that
// begins in this folder. The magic links of /proc are not followed otherwise.
func (c *call) below(p string) (dirfd int, rest string, ok bool) {
	inside, ok := strings.CutPrefix(p, c.proc("fd")+"/")
	if !ok {
		return 0, "", false
	}
	number, rest, _ := strings.Cut(inside, "/")
	rest = strings.TrimLeft(rest, "/")
	n, err := strconv.ParseUint(number, 10, 31)
	return int(n), rest, err == nil && rest != ""
}

func (c *call) openFolder(dirfd int, p, dir, base string) (int, error) {
	start := unix.AT_FDCWD
	if p[0] != '/' {
		from := c.proc("cwd")
		if dirfd != unix.AT_FDCWD {
			from = c.proc("fd/" + strconv.Itoa(dirfd))
		}
		fd, err := unix.Open(from, held, 0)
		if err != nil {
			return -1, unix.EBADF
		}
		defer unix.Close(fd)
		if !c.valid() {
			return -1, unix.ESRCH
		}
		start = fd
	}
	flags := uint64(held)
	if base != "" {
		flags |= unix.O_DIRECTORY
	}
	return unix.Openat2(start, dir, &unix.OpenHow{Flags: flags, Resolve: unix.RESOLVE_NO_MAGICLINKS})
}

// inFolder says which file of a held folder is meant, or by which path to go on.
func (c *call) inFolder(fd int, base string, follow bool) (pl place, again string, err error) {
	real, err := readlink(unix.AT_FDCWD, descriptor(fd))
	if err != nil {
		return place{}, "", err
	}
	full := real
	if base != "" {
		full = path.Join(real, base)
	}
	if err := c.mayTouch(full); err != nil {
		return place{}, "", err
	}
	if base == "" || !follow {
		return place{dir: fd, base: base, real: full}, "", nil
	}
	to, _ := readlink(fd, base)
	switch {
	case to == "": // no link, or nothing is there yet
		return place{dir: fd, base: base, real: full}, "", nil
	case strings.HasPrefix(real, "/proc/") && (path.Base(real) == "fd" || base == "exe"): // leads to an open file, whatever the text is
		pl, err := c.reopened(fd, base)
		return pl, "", err
	case strings.HasPrefix(to, "/"):
		return place{}, to, nil
	}
	return place{}, real + "/" + to, nil
}

// reopened is the file that a process has open already. It takes the folder's place.
func (c *call) reopened(folder int, base string) (place, error) {
	fd, err := unix.Openat(folder, base, held, 0)
	if err != nil {
		return place{}, err
	}
	real, err := readlink(unix.AT_FDCWD, descriptor(fd))
	if err != nil {
		unix.Close(fd)
		return place{}, err
	}
	unix.Close(folder)
	return place{dir: fd, real: real}, nil
}

// own rewrites the names by which the sandbox would reach itself.
func (c *call) own(p string) string {
	switch p {
	case "/dev/stdin":
		return c.proc("fd/0")
	case "/dev/stdout":
		return c.proc("fd/1")
	case "/dev/stderr":
		return c.proc("fd/2")
	}
	for name, to := range map[string]string{"/dev/fd": "fd", "/proc/self": "", "/proc/thread-self": ""} {
		if rest, ok := strings.CutPrefix(p, name); ok && (rest == "" || rest[0] == '/') {
			return strings.TrimSuffix(c.proc(to), "/") + rest
		}
	}
	return p
}

// mayTouch refuses what /proc has of other processes. The sandbox could reach into some that the process could not,
// itself among them. Memory can never be written by its file.
func (c *call) mayTouch(real string) error {
	rest, ok := strings.CutPrefix(real, "/proc/")
	if !ok {
		return nil
	}
	id, inside, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(id)
	if err == nil && (n != c.tgid && n != int(c.pid) && !c.childsIDMap(real) || path.Base(inside) == "mem") {
		return unix.EACCES
	}
	return nil
}

func readlink(dirfd int, name string) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(dirfd, name, b[:])
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// changes are the events of a change to places. A file without a name can be changed unasked if it lies in memory, or
// is a pipe and the like; a file that has lost its name cannot.
func (c *call) changes(op Operation, places ...place) []Event {
	var events []Event
	for i, p := range places {
		switch {
		case p.mine, !strings.HasPrefix(p.real, "/"), strings.HasPrefix(p.real, "/memfd:") && unnamed(p):
		case strings.HasPrefix(p.real, "/proc/"+strconv.Itoa(c.tgid)+"/"), strings.HasPrefix(p.real, c.proc("")), c.childsIDMap(p.real):
			// its own name, its own score for the OOM killer
		default:
			var others []string
			if op == Move {
				for _, other := range slices.Concat(places[:i], places[i+1:]) {
					if !other.mine {
						others = append(others, other.paths()...)
					}
				}
			}
			for _, name := range p.paths() {
				events = append(events, Event{Operation: op, Path: name, Held: p.dir, Name: p.base, Others: others})
			}
		}
	}
	return events
}

// mayWrite asks about a change to places.
func (c *call) mayWrite(op Operation, places ...place) error {
	if err := writable(places...); err != nil {
		return err
	}
	return c.allowed(c.changes(op, places...)...)
}

// writable refuses a change to places where nothing can be changed. A sandbox of the agent's own mounts read-only
// what its programs are not to change: nobody has to be asked about what comes to nothing.
func writable(places ...place) error {
	for _, p := range places {
		var mounted unix.Statfs_t
		switch {
		case p.sealed:
			return unix.EACCES
		case p.within && unix.Fstatfs(p.dir, &mounted) == nil && mounted.Flags&unix.ST_RDONLY != 0 && !p.special():
			return unix.EROFS
		}
	}
	return nil
}

// special reports whether a place is a device, a pipe or a socket: these can be written to wherever they are.
func (p place) special() bool {
	st, err := p.stat()
	return err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

func unnamed(p place) bool {
	var st unix.Stat_t
	return p.base == "" && unix.Fstat(p.dir, &st) == nil && st.Nlink == 0
}
