//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// walker resolves a path as a process in another mount namespace would.
type walker struct {
	*call
	root, at int
	rootID   [2]uint64
	// proc: the held file lies in the sandbox's own directory of the process in /proc, above which the walker must not go.
	proc bool
	last string // the last name that was resolved
	// names: if the last name is not followed, the place is the name itself, and not the file system mounted there.
	names bool
}

func (w *walker) close() {
	if w.root >= 0 {
		unix.Close(w.root)
	}
	if w.at >= 0 {
		unix.Close(w.at)
	}
}

// to continues from another file, and closes the previous one.
func (w *walker) to(fd int) {
	if w.at >= 0 {
		unix.Close(w.at)
	}
	w.at = fd
}

// take returns the held file, which the walker no longer closes.
func (w *walker) take() int {
	fd := w.at
	w.at = -1
	return fd
}

func (w *walker) toRoot() error {
	fd, err := unix.FcntlInt(uintptr(w.root), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	w.to(fd)
	w.proc, w.last = false, "/"
	return nil
}

func mountAndInode(fd int) ([2]uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_STATX_DONT_SYNC, unix.STATX_INO|unix.STATX_MNT_ID, &st)
	return [2]uint64{st.Mnt_id, st.Ino}, err
}

// newWalker returns a walker at the start of a path.
func (c *call) newWalker(dirfd int, p string) (w *walker, rest string, err error) {
	w = &walker{call: c, root: -1, at: -1}
	defer func() {
		if err != nil {
			w.close()
		}
	}()
	if w.root, err = unix.Open(c.proc("root"), held|unix.O_DIRECTORY, 0); err != nil {
		return w, "", unix.ESRCH
	}
	if w.rootID, err = mountAndInode(w.root); err != nil {
		return w, "", err
	}
	from := ""
	if inside, ok := strings.CutPrefix(p, c.proc("fd/")); ok { // the sandbox itself names open files like this
		number, after, _ := strings.Cut(inside, "/")
		if _, err := strconv.ParseUint(number, 10, 31); err == nil {
			from, p = c.proc("fd/"+number), after
		}
	}
	switch {
	case from != "":
	case p[0] == '/':
		err = w.toRoot()
	case dirfd == unix.AT_FDCWD:
		from = c.proc("cwd")
	default:
		from = c.proc("fd/" + strconv.Itoa(dirfd))
	}
	if from != "" {
		if w.at, err = unix.Open(from, held, 0); err != nil {
			return w, "", unix.EBADF
		}
	}
	if err == nil && !c.valid() {
		err = unix.ESRCH
	}
	if err == nil && from != "" {
		p, err = w.fromProc(p)
	}
	return w, p, err
}

// fromProc moves the walker to the sandbox's own /proc if it starts in a folder of the process in another procfs. It returns the rest
// of the path.
func (w *walker) fromProc(p string) (string, error) {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(w.at, &fs); err != nil || fs.Type != unix.PROC_SUPER_MAGIC || isProcRoot(w.at) {
		return p, err
	}
	o, err := w.outsideOf(w.at)
	if err != nil || len(o.names) == 0 {
		return p, err
	}
	rest, ok := strings.CutPrefix(o.names[0], "/proc/")
	if !ok {
		return p, nil
	}
	id, below, _ := strings.Cut(rest, "/")
	itself, err := w.ownProcFolder(id)
	if err != nil || itself == "" {
		return p, err
	}
	fd, err := unix.Open(itself, held|unix.O_DIRECTORY, 0)
	if err != nil {
		return p, err
	}
	w.to(fd)
	w.proc, w.last = true, ""
	if below == "" {
		return p, nil
	}
	return below + "/" + p, nil
}

// findWithin is find for a process with other mounts. If the last name is followed and leads to a file, the place is the file itself,
// so that it has no name that could lead to another file.
func (c *call) findWithin(dirfd int, p string, follow bool) (place, error) {
	if p == "" {
		return place{}, unix.ENOENT
	}
	w, p, err := c.newWalker(dirfd, p)
	if err != nil {
		return place{}, err
	}
	defer w.close()
	pl, err := w.walk(p, follow)
	if err != nil {
		return place{}, err
	}
	pl.within = true
	return c.resolveOutside(pl)
}

func (w *walker) walk(p string, follow bool) (place, error) {
	names := func(p string) []string {
		list := slices.DeleteFunc(strings.Split(p, "/"), func(s string) bool { return s == "" })
		if strings.HasSuffix(p, "/") && len(list) > 0 {
			list = append(list, ".")
		}
		return list
	}
	rest := names(p)
	if !follow && len(rest) > 1 && rest[len(rest)-1] == "." && strings.HasSuffix(p, "/") && !strings.HasSuffix(p, "./") {
		rest = rest[:len(rest)-1] // mkdir("a/")
	}
	links := 0
	for len(rest) > 0 {
		name, isLast := rest[0], len(rest) == 1
		rest = rest[1:]
		switch name {
		case ".":
			if err := w.isFolder(); err != nil {
				return place{}, err
			}
			continue
		case "..":
			if err := w.up(); err != nil {
				return place{}, err
			}
			continue
		}
		fd, jumped, err := w.open(name)
		if errors.Is(err, unix.ENOENT) && isLast {
			return place{dir: w.take(), base: name}, nil
		}
		if err != nil {
			return place{}, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return place{}, err
		}
		isLink := st.Mode&unix.S_IFMT == unix.S_IFLNK
		switch {
		case isLast && !follow && !jumped:
			if !isLink && !w.names && w.crossed(fd) { // the place is the mounted file system
				return place{dir: fd}, nil
			}
			unix.Close(fd)
			return place{dir: w.take(), base: name}, nil
		case isLast && !follow && jumped: // unlink("/proc/self/fd/3") and the like
			unix.Close(fd)
			return place{}, unix.EPERM
		case isLink && jumped || isLink && w.proc:
			unix.Close(fd)
			return place{}, unix.ELOOP // a magic link of /proc that leads to no open file
		case isLink:
			if links++; links > maxLinks {
				unix.Close(fd)
				return place{}, unix.ELOOP
			}
			target, err := readlink(fd, "")
			unix.Close(fd)
			if err != nil {
				return place{}, err
			}
			if target == "" {
				return place{}, unix.ENOENT
			}
			if target[0] == '/' {
				if err := w.toRoot(); err != nil {
					return place{}, err
				}
			}
			rest = slices.Concat(names(target), rest)
		default:
			if jumped {
				w.proc = false
			}
			w.to(fd)
			w.last = name
		}
	}
	return place{dir: w.take()}, nil
}

// crossed reports whether a file lies on another mount than the held folder.
func (w *walker) crossed(fd int) bool {
	id, err1 := mountAndInode(fd)
	at, err2 := mountAndInode(w.at)
	return err1 != nil || err2 != nil || id[0] != at[0]
}

func (w *walker) isFolder() error {
	var st unix.Stat_t
	if err := unix.Fstat(w.at, &st); err != nil {
		return err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		return unix.ENOTDIR
	}
	return nil
}

func (w *walker) up() error {
	if err := w.isFolder(); err != nil {
		return err
	}
	id, err := mountAndInode(w.at)
	switch {
	case err != nil:
		return err
	case id == w.rootID:
		return nil
	case w.proc:
		return unix.EACCES // it would lead to the sandbox's root
	}
	fd, err := unix.Openat(w.at, "..", held|unix.O_DIRECTORY, 0)
	if err == nil {
		w.to(fd)
		w.last = ".."
	}
	return err
}

// open opens a name in the held folder with O_PATH. It does not follow a symbolic link. Files of the process itself in any /proc are
// opened in the sandbox's own /proc: a number means another process in another PID namespace.
func (w *walker) open(name string) (fd int, jumped bool, err error) {
	const one = unix.RESOLVE_NO_MAGICLINKS
	how := &unix.OpenHow{Flags: held | unix.O_NOFOLLOW, Resolve: one}
	if w.proc {
		if w.last == "fd" || name == "exe" {
			fd, err = unix.Openat(w.at, name, held, 0)
			return fd, true, err
		}
		fd, err = unix.Openat2(w.at, name, how)
		return fd, false, err
	}
	if isProcRoot(w.at) {
		switch itself, err := w.ownProcFolder(name); {
		case err != nil:
			return -1, false, err
		case itself != "":
			fd, err = unix.Open(itself, held|unix.O_DIRECTORY, 0)
			w.proc = err == nil
			return fd, false, err
		}
	}
	fd, err = unix.Openat2(w.at, name, how)
	return fd, false, err
}

// isProcRoot reports whether a held file is the root of a procfs.
func isProcRoot(fd int) bool {
	const procRoot = 1 // PROC_ROOT_INO
	var fs unix.Statfs_t
	var st unix.Stat_t
	return unix.Fstatfs(fd, &fs) == nil && fs.Type == unix.PROC_SUPER_MAGIC && unix.Fstat(fd, &st) == nil && st.Ino == procRoot
}

// ownProcFolder returns the directory in the sandbox's /proc of the process that a name in any /proc means. It returns "" if the name
// is not a process, and an error for other processes than the caller's own.
func (c *call) ownProcFolder(name string) (string, error) {
	tgid := "/proc/" + strconv.Itoa(c.tgid())
	switch name {
	case "self":
		return tgid, nil
	case "thread-self":
		return tgid + "/task/" + strconv.Itoa(int(c.pid)), nil
	}
	switch {
	case strings.Trim(name, "0123456789") != "":
		return "", nil
	case slices.Contains(strings.Fields(c.status("NStgid")), name):
		return tgid, nil
	case slices.Contains(strings.Fields(c.status("NSpid")), name):
		return tgid + "/task/" + strconv.Itoa(int(c.pid)), nil
	}
	return "", unix.EACCES
}
