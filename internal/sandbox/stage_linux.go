//go:build amd64 || arm64

package sandbox

import (
	"encoding/binary"
	"errors"
	"path"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// A staged file is written by a process before it is decided on: the process gets an unnamed file in place of the one
// that it opens. When the process has closed it, the decider decides on its content. If the content is allowed, the
// name gets a new file with these bytes, so that no descriptor of the process reaches it. Otherwise the name stays as
// it was.
//
// inotify notifies of the close before close returns to the process. Each later call that the sandbox answers waits
// until the closed files are decided on, so that a program that the process starts finds them.

// maxStaged limits the staged files that are open at the same time.
const maxStaged = 256

// stages are the staged files of a sandbox. The zero value is ready.
type stages struct {
	open atomic.Int32 // number of files

	mu      sync.Mutex // guards the fields below, and is held while files are decided on
	inotify int        // 0: there has been no file yet
	files   map[uint32]*stagedFile
}

// stagedFile is a file that a process writes.
type stagedFile struct {
	event     Event // the question about the open, which was not decided
	at        place // owns its folder
	file      int   // the unnamed file, open for reading
	exclusive bool  // the name must not exist
	domain    *domain
}

func (f *stagedFile) close() {
	f.at.close()
	unix.Close(f.file)
}

// stageable reports whether an open makes a new file, or replaces the content of a regular one.
func stageable(p place, flags int) bool {
	if p.base == "" || p.within || p.insideOnly || len(p.others) > 0 || flags&tmpfileBit != 0 {
		return false
	}
	st, err := p.stat()
	if errors.Is(err, unix.ENOENT) {
		return flags&unix.O_CREAT != 0
	}
	return err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && st.Nlink == 1 && flags&unix.O_TRUNC != 0 && flags&unix.O_EXCL == 0
}

// allowedOrStaged is allowed for the events of an open. staged: the decider decides on the content later.
func (c *call) allowedOrStaged(p place, flags int, events []Event) (toStage bool, err error) {
	s, ok := c.decider.(Stager)
	if !ok || c.options.Observe || len(events) != 1 || events[0].Operation != Write || !stageable(p, flags) || c.stages.open.Load() >= maxStaged {
		return false, c.allowed(events...)
	}
	if c.allowedAtOnce(events) {
		return false, nil
	}
	if err := c.identify(); err != nil {
		return false, err
	}
	e := &events[0]
	e.PID, e.Call = c.tgid(), c.id
	err = c.decide(unix.EACCES, func() error {
		var allowed bool
		if allowed, toStage = s.AllowsStaged(*e); !allowed && !toStage {
			return unix.EACCES
		}
		return nil
	})
	return toStage && err == nil, err
}

// openStaged gives the process an unnamed file to write. If the file system has none, the open is decided on as it is:
// staged is false then, and err is the decision.
func (c *call) openStaged(p place, flags int, mode uint32, e Event) (staged bool, err error) {
	f := &stagedFile{event: e, at: p, file: -1, exclusive: flags&unix.O_EXCL != 0, domain: c.domain}
	theirs := -1
	err = c.runInDomain(func() error {
		if err := c.setUmask(); err != nil {
			return err
		}
		made, err := unix.Openat(p.dir, ".", unix.O_TMPFILE|unix.O_EXCL|unix.O_RDWR|unix.O_CLOEXEC, mode&0o777)
		if err != nil {
			return err
		}
		defer unix.Close(made)
		if st, err := p.stat(); err == nil { // it keeps its permissions
			_ = unix.Fchmod(made, st.Mode&0o777)
		}
		if f.file, err = unix.Open(descriptor(made), unix.O_RDONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		const keeps = unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK | unix.O_SYNC | unix.O_DSYNC
		theirs, err = unix.Open(descriptor(made), flags&keeps|unix.O_CLOEXEC, 0)
		return err
	})
	if err == nil {
		f.at.dir, err = unix.FcntlInt(uintptr(p.dir), unix.F_DUPFD_CLOEXEC, 0)
	}
	if err == nil {
		if err = c.stages.add(c.server, f); err != nil {
			f.at.close()
		}
	}
	if err != nil {
		closeAll(f.file, theirs)
		return false, c.allowed(e)
	}
	return true, c.hand(theirs, flags)
}

func closeAll(files ...int) {
	for _, fd := range files {
		if fd >= 0 {
			unix.Close(fd)
		}
	}
}

// add begins to watch a file.
func (g *stages) add(s *server, f *stagedFile) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.inotify == 0 {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return err
		}
		g.inotify, g.files = fd, map[uint32]*stagedFile{}
		go s.watchStages(fd)
	}
	watch, err := unix.InotifyAddWatch(g.inotify, descriptor(f.file), unix.IN_CLOSE_WRITE|unix.IN_ONESHOT)
	if err != nil {
		return err
	}
	g.files[uint32(watch)] = f
	g.open.Add(1)
	return nil
}

// watchStages settles files that are closed while no other call is answered.
func (s *server) watchStages(inotify int) {
	if ownThread() != nil {
		return
	}
	for {
		ready := []unix.PollFd{{Fd: int32(inotify), Events: unix.POLLIN}}
		if _, err := unix.Poll(ready, -1); err != nil && !errors.Is(err, unix.EINTR) {
			return
		}
		s.settle()
	}
}

// settle decides on the staged files that their processes have closed. It returns when each of them has its name, or
// was rejected.
func (s *server) settle() {
	if s.stages.open.Load() == 0 {
		return
	}
	g := &s.stages
	g.mu.Lock()
	defer g.mu.Unlock()
	var buffer [4096]byte
	for {
		n, err := unix.Read(g.inotify, buffer[:])
		if err != nil || n <= 0 {
			return
		}
		for rest := buffer[:n]; len(rest) >= unix.SizeofInotifyEvent; {
			watch, mask := binary.NativeEndian.Uint32(rest), binary.NativeEndian.Uint32(rest[4:])
			rest = rest[unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(rest[12:])):]
			f := g.files[watch]
			if f == nil || mask&unix.IN_CLOSE_WRITE == 0 {
				continue
			}
			delete(g.files, watch)
			s.place(f)
			f.close()
			g.open.Add(-1) // last: until then, settle waits for this file
		}
	}
}

// place decides on the content of a staged file, and gives the file its name.
func (s *server) place(f *stagedFile) {
	content := source{held: f.file}
	if !content.read() || len(content.content) > MaxContent {
		s.decider.Refused(f.event.PID, "a file of more than 4 MiB whose content has to be decided on: "+f.at.real)
		return
	}
	since := s.moves.now()
	if folder, err := readlink(unix.AT_FDCWD, descriptor(f.at.dir)); err != nil || folder != path.Dir(f.at.real) {
		s.decider.Refused(f.event.PID, "a file in a folder that was moved or removed meanwhile: "+f.at.real)
		return
	}
	e := f.event
	e.Placed, e.Content, e.Held = true, content.content, f.at.dir
	if !s.decider.Allows(e) {
		return
	}
	if !s.moves.make(f.at.paths(), since) {
		s.decider.Refused(f.event.PID, "a file in a folder that was moved meanwhile: "+f.at.real)
		return
	}
	defer s.moves.made(f.at.paths())
	work := func() error {
		made := f.at
		made.base = reservedName()
		if err := content.write(made); err != nil {
			return err
		}
		flags := uint(0)
		if f.exclusive {
			flags = unix.RENAME_NOREPLACE
		}
		err := unix.Renameat2(made.dir, made.base, f.at.dir, f.at.base, flags)
		switch {
		case err != nil:
			_ = unix.Unlinkat(made.dir, made.base, 0)
		case f.at.hasMoved():
			_ = unix.Unlinkat(f.at.dir, f.at.base, 0)
			err = errMoved
		}
		return err
	}
	run := work
	if f.domain != nil {
		run = func() error { return f.domain.do(work) }
	}
	if err := run(); err != nil {
		s.decider.Refused(f.event.PID, "a file that could not be put in its place ("+err.Error()+"): "+f.at.real)
	}
}
