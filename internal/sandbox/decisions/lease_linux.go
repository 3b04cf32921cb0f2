package decisions

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/reuse"
	"github.com/acphost/acphost/internal/sandbox"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	sandboxv1 "github.com/acphost/acphost/proto/acphost/sandbox/v1"
)

// shared is memory that another process can map.
type shared struct {
	file  *os.File
	bytes []byte
}

// newShared makes shared memory that cannot be truncated, which would kill a process that reads it.
func newShared(name string, size int, seals int) (shared, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return shared{}, err
	}
	m := shared{file: os.NewFile(uintptr(fd), name)}
	err = m.file.Truncate(int64(size))
	if err == nil {
		m.bytes, err = unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	}
	if err == nil {
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW|unix.F_SEAL_SEAL|seals)
	}
	if err != nil {
		m.close()
		return shared{}, err
	}
	return m, nil
}

func (m shared) close() {
	_ = m.file.Close()
	if m.bytes != nil {
		_ = unix.Munmap(m.bytes)
	}
}

// generationSize is the size of a page.
const generationSize = 4096

// NewGeneration returns a new Generation. Without it, sandboxes ask about each change.
func NewGeneration() (*Generation, error) {
	m, err := newShared("acphost-generation", generationSize, unix.F_SEAL_FUTURE_WRITE) // sandboxes read it
	if err != nil {
		return nil, err
	}
	return &Generation{memory: m, now: (*atomic.Uint64)(unsafe.Pointer(&m.bytes[0]))}, nil
}

// lend passes the memory for leases to a sandbox. nil: the sandbox gets none, and asks about each change.
func (g *Generation) lend(conn net.Conn) *Counts {
	socket, ok := conn.(*net.UnixConn)
	if _, open := g.current(); !ok || !open {
		return nil
	}
	m, err := newShared("acphost-counts", maxCounts*8, 0)
	if err != nil {
		return nil
	}
	frame, err := frame(&sandboxv1.Answer{})
	if err == nil {
		_ = socket.SetWriteDeadline(time.Now().Add(writeTimeout))
		_, _, err = socket.WriteMsgUnix(frame, unix.UnixRights(int(g.memory.file.Fd()), int(m.file.Fd())), nil)
	}
	if err != nil {
		m.close()
		return nil
	}
	c := &Counts{memory: m, all: unsafe.Slice((*atomic.Int64)(unsafe.Pointer(&m.bytes[0])), maxCounts)}
	for n := range uint32(maxCounts) {
		c.free = append(c.free, n)
	}
	return c
}

// leases are the leases of a sandbox. Safe for concurrent use. nil: there are none.
type leases struct {
	memory     [][]byte // backs the next two fields
	generation *atomic.Uint64
	counts     []atomic.Int64
	view       string // the file system view of this process

	mu  sync.Mutex
	all map[leased]*lease
}

// leased is the scope of a lease: the program that the process runs, and the folder of the file.
type leased struct{ program, folder string }

type lease struct {
	*sandboxv1.Lease
	until time.Time
}

// borrow maps the memory that Generation.lend has passed.
func borrow(fds []int) *leases {
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	if len(fds) != 2 {
		return nil
	}
	generation, err := unix.Mmap(fds[0], 0, generationSize, unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil
	}
	counts, err := unix.Mmap(fds[1], 0, maxCounts*8, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = unix.Munmap(generation)
		return nil
	}
	return &leases{
		memory:     [][]byte{generation, counts},
		generation: (*atomic.Uint64)(unsafe.Pointer(&generation[0])), counts: unsafe.Slice((*atomic.Int64)(unsafe.Pointer(&counts[0])), maxCounts),
		view: reuse.View(), all: map[leased]*lease{},
	}
}

// end releases the memory. The leases must not be used afterwards.
func (s *leases) end() {
	for _, b := range s.memory {
		_ = unix.Munmap(b)
	}
}

// leasable returns the scope of a lease for a change, and the name of the file. ok is false if leases do not cover the change:
// operations other than a change of one file, symbolic links, by which folders get other names, names that a file system may treat as equal to others, hidden files, and names by which
// git recognizes a repository.
func leasable(e sandbox.Event) (about leased, name string, ok bool) {
	if e.Operation != sandbox.Write || e.Leaves == sandbox.LeavesLink || e.Held <= 0 || !strings.HasPrefix(e.Path, "/") {
		return leased{}, "", false
	}
	name = path.Base(e.Path)
	if !reuse.Plain(name) || strings.HasPrefix(name, ".") || git.MayBeOwn(name) {
		return leased{}, "", false
	}
	return leased{string(programOf(e.PID)), path.Dir(e.Path)}, name, true
}

// keep stores the lease of an answer.
func (s *leases) keep(about leased, l *sandboxv1.Lease, now time.Time) {
	if s == nil || l == nil || l.GetView() == "" || l.GetView() != s.view || about.program == "" || uint64(l.GetCount()) >= uint64(len(s.counts)) ||
		len(l.GetKeys())%2 != 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all) >= maxLeases {
		clear(s.all)
	}
	s.all[about] = &lease{l, now.Add(leaseTime)}
}

// allow reports whether a lease allows the change of a file, and counts the use.
func (s *leases) allow(about leased, name string, e sandbox.Event) bool {
	s.mu.Lock()
	l := s.all[about]
	s.mu.Unlock()
	if l == nil {
		return false
	}
	if s.generation.Load() != l.GetGeneration() || !time.Now().Before(l.until) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.all[about] == l {
			delete(s.all, about)
		}
		return false
	}
	if reuse.Excepted(name, l.GetExcept()) || !ordinary(e, l.GetKeys()) ||
		slices.ContainsFunc(l.GetFiles(), func(file *permissionv1.FileState) bool { return !reuse.IsStill(file) }) {
		return false
	}
	s.counts[l.GetCount()].Add(1)
	return true
}

// ordinary reports whether no file exists yet, or a regular file with a single name that is not in keys. (A file might be protected
// by another of its names.)
func ordinary(e sandbox.Event, keys []uint64) bool {
	var st unix.Stat_t
	var err error
	if e.Name == "" {
		err = unix.Fstat(e.Held, &st)
	} else {
		err = unix.Fstatat(e.Held, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		return e.Name != ""
	case err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Nlink != 1:
		return false
	}
	for i := 0; i+1 < len(keys); i += 2 {
		if keys[i] == st.Dev && keys[i+1] == st.Ino {
			return false
		}
	}
	return true
}

// heldID returns the FileID of the file of an event; false: it is not known.
func heldID(e sandbox.Event) (FileID, bool) {
	if e.File != (FileID{}) {
		return e.File, true
	}
	if e.Held <= 0 {
		return FileID{}, false
	}
	var st unix.Stat_t
	var err error
	if e.Name == "" {
		err = unix.Fstat(e.Held, &st)
	} else {
		err = unix.Fstatat(e.Held, e.Name, &st, unix.AT_SYMLINK_NOFOLLOW)
	}
	return FileID{Device: st.Dev, Inode: st.Ino}, err == nil
}

// IDOf returns the FileID of a file from its fs.FileInfo.
func IDOf(info fs.FileInfo) (id FileID, ok bool) {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return FileID{}, false
	}
	return FileID{Device: st.Dev, Inode: st.Ino}, true
}
