package sandbox

import (
	"errors"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// open opens a file for the process, and hands it over.
func (c *call) open(dirfd, pathArg int, flags int, mode uint32) error {
	name, err := c.name(pathArg)
	if err != nil {
		return err
	}
	if name == "/dev/tty" && !c.sameSession() {
		return unix.ENXIO // its terminal is not the sandbox's
	}
	exclusive := flags&(unix.O_CREAT|unix.O_EXCL) == unix.O_CREAT|unix.O_EXCL
	p, err := c.find(dirfd, name, flags&unix.O_NOFOLLOW == 0 && !exclusive)
	if err != nil {
		return err
	}
	defer p.close()
	var events []Event
	if flags&writing != 0 {
		events = c.changes(Write, p)
	}
	if c.options.Reads && flags&unix.O_ACCMODE != unix.O_WRONLY && strings.HasPrefix(p.real, "/") {
		events = append(events, Event{Operation: Read, Path: p.real})
	}
	if err := c.allowed(events...); err != nil {
		return err
	}
	if flags&unix.O_CREAT != 0 && p.base == "" && !strings.HasPrefix(p.real, "/") {
		flags &^= unix.O_CREAT // a pipe by its descriptor
	}
	fd, err := c.openPlace(p, flags, mode)
	if errors.Is(err, unix.ENXIO) && flags&unix.O_NONBLOCK == 0 && isPipe(p) {
		return c.openLater(p, flags)
	}
	if err != nil {
		return err
	}
	return c.hand(fd, flags)
}

// openPlace opens without waiting for another process: a pipe waits for its reader.
func (c *call) openPlace(p place, flags int, mode uint32) (int, error) {
	with := flags | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK
	unix.Umask(c.umask)
	var fd int
	var err error
	if p.base == "" {
		fd, err = unix.Open(p.link(), with&^unix.O_NOFOLLOW, mode)
	} else {
		const resolve = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS
		how := unix.OpenHow{Flags: uint64(with) & 0o37777777, Resolve: resolve} // openat2 refuses unknown flags, openat does not
		if flags&(unix.O_CREAT|tmpfileBit) != 0 {
			how.Mode = uint64(mode & 0o7777)
		}
		fd, err = unix.Openat2(p.dir, p.base, &how)
	}
	if err != nil {
		return -1, err
	}
	if flags&unix.O_NONBLOCK == 0 {
		got, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
		if err == nil {
			_, err = unix.FcntlInt(uintptr(fd), unix.F_SETFL, got&^unix.O_NONBLOCK)
		}
		if err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// hand gives the process the file as the result of its call, and closes it here.
func (c *call) hand(fd, flags int) error {
	defer unix.Close(fd)
	add := addFD{id: c.id, flags: unix.SECCOMP_ADDFD_FLAG_SEND, source: uint32(fd), targetFlag: uint32(flags & unix.O_CLOEXEC)}
	if errno := c.ioctl(unix.SECCOMP_IOCTL_NOTIF_ADDFD, unsafe.Pointer(&add)); errno != 0 && errno != unix.ENOENT {
		return errno
	}
	return errAnswered
}

func isPipe(p place) bool {
	var st unix.Stat_t
	var err error
	if p.base == "" {
		err = unix.Fstat(p.dir, &st)
	} else {
		err = unix.Fstatat(p.dir, p.base, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFIFO
}

// openLater opens a pipe as soon as it has a reader, on a thread of its own. The kernel tells nobody when that is.
func (c *call) openLater(p place, flags int) error {
	dir, err := unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	p.dir = dir
	return c.later(func() error {
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

func (c *call) sameSession() bool {
	own, err1 := unix.Getsid(0)
	theirs, err2 := unix.Getsid(c.tgid)
	return err1 == nil && err2 == nil && own == theirs
}
