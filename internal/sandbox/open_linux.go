//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open opens a file for the process, and hands it over.
func (c *call) open(dirfd, pathArg int, flags int, mode uint32) error {
	if flags&(unix.O_CREAT|tmpfileBit) != 0 && mode&setID != 0 {
		return c.refusePrivileges()
	}
	name, err := c.name(pathArg)
	if err != nil {
		return err
	}
	if name == "/dev/tty" && !c.sameSession() {
		return unix.ENXIO // the sandbox has another controlling terminal
	}
	exclusive := flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL
	p, err := c.find(dirfd, name, flags&unix.O_NOFOLLOW == 0 && !exclusive)
	if err != nil {
		return err
	}
	defer p.close()
	if exclusive && p.look().err == nil { // as the kernel answers, whoever may write there
		return unix.EEXIST
	}
	if p.within && p.look().isTTY() && !c.sameSession() {
		return unix.ENXIO
	}
	var events []Event
	var decided *seen // the file that the decision is about, if it is opened only for reading
	if flags&writing != 0 {
		if err := writable(p); err != nil {
			return err
		}
		if flags&unix.O_CREAT != 0 && c.mountPoint(p) {
			return c.openMountPoint(p, flags, mode)
		}
		events = c.changes(Write, p)
	}
	if c.options.Reads && flags&unix.O_ACCMODE != unix.O_WRONLY && strings.HasPrefix(p.real, "/") && !p.insideOnly && !c.isOwnProcess(p) {
		file := p.look()
		if flags&unix.O_CREAT == 0 && file.isMissing() {
			return unix.ENOENT // programs look for many files that do not exist; no decision about them is needed
		}
		e := Event{Operation: Read, Held: p.dir, Name: p.base}
		if flags&writing == 0 && file.err == nil && !strings.HasPrefix(p.real, "/proc/") { // where inodes have no fixed numbers
			decided, e.File = file, file.id()
		}
		for _, e.Path = range p.paths() {
			events = append(events, e)
		}
	}
	inspected := c.inspect(p, flags, events)
	switch toStage, err := c.allowedOrStaged(p, flags, events); {
	case err != nil:
		if inspected >= 0 {
			unix.Close(inspected)
		}
		return err
	case inspected >= 0:
		return c.hand(inspected, flags)
	case toStage:
		if staged, err := c.openStaged(p, flags, mode, events[0]); staged || err != nil {
			return err
		}
	}
	if flags&unix.O_CREAT != 0 && p.base == "" && !strings.HasPrefix(p.real, "/") {
		flags &^= unix.O_CREAT // a pipe by its descriptor
	}
	if flags&(unix.O_ACCMODE|unix.O_NONBLOCK|unix.O_PATH) == unix.O_RDONLY && p.look().is(unix.S_IFIFO) {
		return c.openForReading(p, flags)
	}
	fd := -1
	carry := c.runInDomain
	if flags&unix.O_CREAT != 0 && p.base != "" {
		carry = func(work func() error) error { return c.carryOutMake(p, work) }
	}
	err = carry(func() (err error) {
		if c.isIDMap(p) {
			fd, err = c.openIDMap(p, flags)
		} else {
			fd, err = c.openPlace(p, flags, mode)
		}
		return err
	})
	if errors.Is(err, unix.ENXIO) && flags&unix.O_NONBLOCK == 0 && isPipe(p) {
		return c.openLater(p, flags)
	}
	if err == nil && decided != nil {
		if opened := lookAt(fd, ""); opened.err != nil || opened.id() != decided.id() {
			err = errMoved // another file has the name by now
		}
	}
	if err != nil {
		if fd >= 0 { // the new file was rejected
			unix.Close(fd)
		}
		return err
	}
	return c.hand(fd, flags)
}

// inspect opens a regular file that is only read, adds its content to the events if an Inspector wants it, and
// returns the file; -1: no Inspector wants it, or it could not be opened.
func (c *call) inspect(p place, flags int, events []Event) int {
	inspector, ok := c.decider.(Inspector)
	limit := 0
	for _, e := range events {
		if ok && e.Operation == Read {
			limit = max(limit, inspector.Inspects(e.Path))
		}
	}
	if limit == 0 || c.options.Observe || flags&(writing|unix.O_PATH) != 0 || !p.look().is(unix.S_IFREG) {
		return -1
	}
	fd := -1
	err := c.runInDomain(func() (err error) {
		fd, err = c.openPlace(p, flags, 0)
		return err
	})
	if err != nil {
		return -1
	}
	var st unix.Stat_t
	content, err := readMost(fd, limit)
	if err != nil || unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		unix.Close(fd)
		return -1
	}
	for i := range events {
		if id := (FileID{st.Dev, st.Ino}); events[i].File != (FileID{}) && events[i].File != id {
			unix.Close(fd)
			return -1
		}
		events[i].Inspected, events[i].Content = true, content
	}
	return fd
}

// openPlace opens a file without waiting for another process: opening a pipe for writing waits for a reader.
func (c *call) openPlace(p place, flags int, mode uint32) (int, error) {
	with := flags | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	var fd int
	var err error
	if flags&(unix.O_CREAT|tmpfileBit) != 0 {
		if err := c.setUmask(); err != nil {
			return -1, err
		}
	}
	if p.base == "" {
		fd, err = unix.Open(p.link(), with&^unix.O_NOFOLLOW, mode)
	} else {
		const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
		how := unix.OpenHow{Flags: uint64(with) & 0o37777777, Resolve: resolve} // openat2 rejects unknown flags, openat does not
		if p.within {
			how.Resolve |= unix.RESOLVE_NO_XDEV // excludes a mount that was made after the decision
		}
		if flags&(unix.O_CREAT|tmpfileBit) != 0 {
			how.Mode = uint64(mode & 0o7777)
		}
		fd, err = unix.Openat2(p.dir, p.base, &how)
	}
	if err != nil {
		return -1, err
	}
	if flags&unix.O_NONBLOCK == 0 {
		if _, err := unix.FcntlInt(uintptr(fd), unix.F_SETFL, flags); err != nil { // ignores all flags that cannot change
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// hand passes the file to the process as the result of its call. It closes the file here before the process continues: a program that
// was just written cannot be executed while it is open for writing anywhere (ETXTBSY). The kernel could pass the file and answer in
// one step (SECCOMP_ADDFD_FLAG_SEND), but answers with 0 if this thread is stopped meanwhile: the caller would then use its standard
// input as the file.
func (c *call) hand(fd, flags int) error {
	add := addFD{id: c.id, source: uint32(fd), targetFlag: uint32(flags & unix.O_CLOEXEC)}
	for {
		theirs, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(c.listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(&add)))
		if errno == unix.EINTR {
			continue
		}
		unix.Close(fd)
		switch errno {
		case 0:
			c.result(int64(theirs))
			return errAnswered
		case unix.ENOENT: // the process was killed
			return errAnswered
		default:
			return errno
		}
	}
}

func isPipe(p place) bool {
	st, err := p.stat()
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// isTTY reports whether a file is /dev/tty, under any name.
func (s *seen) isTTY() bool {
	const major = 5
	return s.is(unix.S_IFCHR) && s.Rdev_major == major && s.Rdev_minor == 0
}

func (p place) stat() (st unix.Stat_t, err error) {
	if p.base == "" {
		err = unix.Fstat(p.dir, &st)
		return st, err
	}
	err = unix.Fstatat(p.dir, p.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	return st, err
}

// isOwnProcess reports whether a place is a file about the calling process in /proc, such as its own environment. No
// decision is needed to read it.
func (c *call) isOwnProcess(p place) bool {
	return !p.within && strings.HasPrefix(p.real, "/proc/") && strings.HasPrefix(p.real, "/proc/"+strconv.Itoa(c.tgid())+"/")
}

func (p place) isFolder() bool {
	st, err := p.stat()
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR
}

// openLater opens a pipe when it has a reader, on its own thread. It polls, because the kernel does not notify of readers.
func (c *call) openLater(p place, flags int) error {
	dir, err := unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	p.dir = dir
	return c.answerLater(func() error {
		for pause := time.Millisecond; c.valid(); pause = min(2*pause, 50*time.Millisecond) {
			fd, err := c.openPlace(p, flags&^unix.O_CREAT, 0)
			if err == nil {
				err = c.hand(fd, flags)
			}
			if !errors.Is(err, unix.ENXIO) {
				return err
			}
			time.Sleep(pause)
		}
		return errAnswered
	}, p.close)
}

// checkTime is how often a call that waits is checked: its process may have been killed.
const checkTime = 50 * time.Millisecond

// openForReading opens a pipe on a thread of its own, which waits until the pipe has a writer. If the process is killed meanwhile, a short
// writer ends the wait.
func (c *call) openForReading(p place, flags int) error {
	fd, err := p.hold()
	if err != nil {
		return err
	}
	pipe := func(flags int) (int, error) {
		for {
			fd, err := unix.Open(descriptor(fd), flags|unix.O_CLOEXEC|unix.O_NOCTTY, 0)
			if !errors.Is(err, unix.EINTR) {
				return fd, err
			}
		}
	}
	return c.answerLater(func() error {
		opened := make(chan struct{})
		watched := make(chan struct{})
		go func() {
			defer close(watched)
			for {
				select {
				case <-opened:
					return
				case <-time.After(checkTime):
				}
				if c.valid() {
					continue
				}
				if writer, err := pipe(unix.O_WRONLY | unix.O_NONBLOCK); err == nil {
					unix.Close(writer)
				}
			}
		}()
		read, err := pipe(flags &^ (unix.O_NOFOLLOW | unix.O_CREAT | unix.O_EXCL | unix.O_TRUNC))
		close(opened)
		<-watched
		if err != nil {
			return err
		}
		return c.hand(read, flags)
	}, func() { unix.Close(fd) })
}

func (c *call) sameSession() bool {
	own, err1 := unix.Getsid(0)
	theirs, err2 := unix.Getsid(c.tgid())
	return err1 == nil && err2 == nil && own == theirs
}
