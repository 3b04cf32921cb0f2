//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
)

// place is a folder that is held open, and a name in it that was not a symbolic link.
type place struct {
	dir  int    // must be closed
	base string // empty: the place is dir itself, which may be any file
	real string // absolute, or the text in /proc for a file without a name
	// Only in another mount namespace (see outsideOf): others are more paths that must be allowed too. insideOnly: the
	// place is memory of confined processes. sealed: the place cannot be changed.
	others             []string
	insideOnly, sealed bool
	// within: the place was found in a mount namespace that was made inside. The name base must not lead into another
	// mount.
	within bool
	// seen is the file that had the name when the place was found; see look.
	seen *seen
}

// seen is what statx reports of a file, or the error.
type seen struct {
	unix.Statx_t
	err error
}

// look returns what file had the name when the place was found. Another file may have it by now.
func (p *place) look() *seen {
	if p.seen == nil {
		p.seen = lookAt(p.dir, p.base)
	}
	return p.seen
}

func lookAt(dir int, base string) *seen {
	s := &seen{}
	const flags = unix.AT_SYMLINK_NOFOLLOW | unix.AT_EMPTY_PATH | unix.AT_STATX_DONT_SYNC
	s.err = unix.Statx(dir, base, flags, unix.STATX_BASIC_STATS|unix.STATX_MNT_ID, &s.Statx_t)
	return s
}

// is reports whether the file has a type: unix.S_IFREG, for example.
func (s *seen) is(kind uint32) bool { return s.err == nil && uint32(s.Mode)&unix.S_IFMT == kind }

func (s *seen) isMissing() bool { return errors.Is(s.err, unix.ENOENT) }

// id returns the file's identity.
func (s *seen) id() FileID { return FileID{unix.Mkdev(s.Dev_major, s.Dev_minor), s.Ino} }

// paths returns all paths of a place. Each of them must be allowed.
func (p place) paths() []string { return append([]string{p.real}, p.others...) }

// hold opens the file itself with O_PATH. It does not follow a symbolic link.
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

// name returns the name for calls that take a folder and a name.
func (p place) name() string {
	if p.base == "" {
		return "."
	}
	return p.base
}

// link returns a path that leads to the held file by its descriptor. Only for a place without a base.
func (p place) link() string { return descriptor(p.dir) }

func descriptor(fd int) string { return "/proc/thread-self/fd/" + strconv.Itoa(fd) }

const held = unix.O_PATH | unix.O_CLOEXEC

// maxLinks limits the symbolic links in a path, as the kernel does.
const maxLinks = 40

// find resolves a path as the process would. It opens the folder of the last name without the magic links of /proc, and
// holds it, so that it cannot be replaced. It follows symbolic links as the last name itself, one at a time. While a
// process has the sandbox's root and mounts, paths mean the same files to both.
func (c *call) find(dirfd int, p string, follow bool) (place, error) {
	pl, err := c.findAny(dirfd, p, follow)
	if err == nil && slices.ContainsFunc(append(pl.paths(), pl.base), isReserved) {
		pl.close()
		return place{}, unix.EACCES
	}
	return pl, err
}

// findAny is find, which also finds the sandbox's own files.
func (c *call) findAny(dirfd int, p string, follow bool) (place, error) {
	if c.seesOtherMounts() {
		return c.findWithin(dirfd, p, follow)
	}
	pl, err := c.findHere(dirfd, p, follow)
	if err != nil {
		return place{}, err
	}
	return c.resolveOutside(pl) // a folder may have been passed from another namespace, even of another sandbox
}

func (c *call) findHere(dirfd int, p string, follow bool) (place, error) {
	for range maxLinks {
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

// split splits a path into its folder and its last name. base is empty if the path can only lead to a folder.
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

// below replaces a path through a folder that the process has open ("/proc/self/fd/4/name") by the folder's descriptor
// and the rest of the path. The magic links of /proc are not followed otherwise.
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

// inFolder returns the place of a name in a held folder, or the path to resolve next.
func (c *call) inFolder(fd int, base string, follow bool) (pl place, again string, err error) {
	real, err := pathOf(fd)
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
	there := lookAt(fd, base)
	var to string
	if there.is(unix.S_IFLNK) {
		to, _ = readlink(fd, base)
	}
	switch {
	case to == "": // no link, or the name does not exist yet
		return place{dir: fd, base: base, real: full, seen: there}, "", nil
	case strings.HasPrefix(real, "/proc/") && (path.Base(real) == "fd" || base == "exe"): // leads to an open file, regardless of its text
		pl, err := c.reopened(fd, base)
		return pl, "", err
	case strings.HasPrefix(to, "/"):
		return place{}, to, nil
	}
	return place{}, real + "/" + to, nil
}

// reopened returns the place of a file that a process has open, and closes the folder.
func (c *call) reopened(folder int, base string) (place, error) {
	fd, err := unix.Openat(folder, base, held, 0)
	if err != nil {
		return place{}, err
	}
	real, err := pathOf(fd)
	if err != nil {
		unix.Close(fd)
		return place{}, err
	}
	unix.Close(folder)
	return place{dir: fd, real: real}, nil
}

// own rewrites names under which the sandbox would find itself instead of the process.
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

// processFacts are the files in the folder of a process in /proc that every process may read without a sandbox,
// whatever restrictions the other process has: the kernel checks no access to its memory (fs/proc/base.c). Programs
// such as ps and pgrep read them.
var processFacts = []string{"stat", "status", "statm", "cmdline", "comm", "cgroup"}

// mayTouch rejects files of other processes in /proc, except processFacts of confined processes. The sandbox could
// access processes that the calling process could not, including itself. It rejects every process's memory file (mem).
func (c *call) mayTouch(real string) error {
	rest, ok := strings.CutPrefix(real, "/proc/")
	if !ok {
		return nil
	}
	id, inside, _ := strings.Cut(rest, "/")
	n, err := strconv.Atoi(id)
	own := n == c.tgid() || n == int(c.pid) || c.isChildIDMap(real) || slices.Contains(processFacts, inside) && c.isConfined(n)
	if err == nil && (!own || path.Base(inside) == "mem") {
		return unix.EACCES
	}
	return nil
}

// isConfined reports whether a process with a number in /proc is confined by this sandbox. The sandbox adopts processes
// whose parents have ended, so it is an ancestor of each. A process with its own mounts may have another /proc.
func (c *call) isConfined(pid int) bool {
	if c.seesOtherMounts() {
		return false
	}
	found := false
	err := proc.Ancestry(pid, func(ancestor int) (bool, error) {
		found = ancestor == os.Getpid()
		return found, nil
	})
	return err == nil && found && pid != os.Getpid()
}

// ownFiles is the folder of this process's open files in /proc, held open; negative: it cannot be opened.
var ownFiles = sync.OnceValue(func() int {
	fd, err := unix.Open("/proc/self/fd", held|unix.O_DIRECTORY, 0)
	if err != nil {
		return -1
	}
	return fd
})

// pathOf returns the path of an open file, or the text in /proc for a file without a name.
func pathOf(fd int) (string, error) { return readlink(ownFiles(), strconv.Itoa(fd)) }

func readlink(dirfd int, name string) (string, error) {
	var b [unix.PathMax]byte
	n, err := unix.Readlinkat(dirfd, name, b[:])
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}

// changes returns the events of a change to places. A file without a name can be changed without a decision if it lies
// in memory, or is for example a pipe; a file that has lost its name cannot.
func (c *call) changes(op Operation, places ...place) []Event {
	var events []Event
	for i, p := range places {
		switch {
		case p.insideOnly, !strings.HasPrefix(p.real, "/"), strings.HasPrefix(p.real, "/memfd:") && unnamed(p):
		case strings.HasPrefix(p.real, "/proc/") && strings.HasPrefix(p.real, "/proc/"+strconv.Itoa(c.tgid())+"/"), strings.HasPrefix(p.real, c.proc("")), c.isChildIDMap(p.real):
			// the process's own name, or its own score for the OOM killer
		default:
			var others []string
			if op == Move {
				for _, other := range slices.Concat(places[:i], places[i+1:]) {
					if !other.insideOnly {
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

// mayWrite asks the decider about a change to places.
func (c *call) mayWrite(op Operation, places ...place) error {
	if err := writable(places...); err != nil {
		return err
	}
	return c.allowed(c.changes(op, places...)...)
}

// writable rejects a change to places that cannot be changed. A nested sandbox of the agent mounts files read-only that
// its programs must not change: the decider is not asked about changes that would fail anyway.
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

// special reports whether a place is a device, a pipe or a socket. These can be written to even on read-only mounts.
func (p place) special() bool {
	st, err := p.stat()
	return err == nil && st.Mode&unix.S_IFMT != unix.S_IFREG && st.Mode&unix.S_IFMT != unix.S_IFDIR
}

func unnamed(p place) bool {
	var st unix.Stat_t
	return p.base == "" && unix.Fstat(p.dir, &st) == nil && st.Nlink == 0
}
