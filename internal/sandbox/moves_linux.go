//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// The decision about renaming a folder includes all files in it. So during that decision no name may be made in the folder, and no
// name may be made by a path that was decided on before. Such calls are not blocked: the later call is decided on again.

// errMoved says that since the decision on a call a folder was renamed, or a name was made in it.
var errMoved = errors.New("moved meanwhile")

// Limits of repeated decisions on a call. The call then fails with EBUSY.
const (
	maxAnew     = 16
	longestAnew = 3 * time.Second
)

// maxMoves is the number of remembered moves of folders.
const maxMoves = 64

// moves are the renames by a sandbox's processes. The zero value is ready.
type moves struct {
	mu      sync.Mutex
	pending map[*move]bool
	making  map[string]int // names that are being made
	count   uint64         // completed moves of folders
	last    [maxMoves][]string
}

// move is a rename that removes or replaces names.
type move struct {
	names   []string
	stale   bool // a name was made below them
	carried bool // it is being carried out
	folder  bool // it moves a folder
}

// now returns the number of moves. A call reads it before it resolves a path.
func (m *moves) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// make registers names that are about to be made. It returns false if a move may have changed their paths since. If it returns true,
// the caller must call made.
func (m *moves) make(names []string, since uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.changed(names, since) {
		return false
	}
	for v := range m.pending {
		if overlap(v.names, names) {
			if v.carried {
				return false
			}
			v.stale = true
		}
	}
	if m.making == nil {
		m.making = map[string]int{}
	}
	for _, name := range names {
		m.making[name]++
	}
	return true
}

func (m *moves) made(names []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, name := range names {
		if m.making[name]--; m.making[name] == 0 {
			delete(m.making, name)
		}
	}
}

// begin registers a move before it is decided on. The caller must call end after it.
func (m *moves) begin(names []string, since uint64) *move {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.pending == nil {
		m.pending = map[*move]bool{}
	}
	v := &move{names: names, stale: m.changed(names, since)}
	m.pending[v] = true
	return v
}

// carry reports whether a move can be carried out as it was decided on. folder: it moves a folder. Moving a file does not change the
// paths of other files.
func (m *moves) carry(v *move, folder bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if v.stale {
		return false
	}
	for name := range m.making {
		if overlap(v.names, []string{name}) {
			return false
		}
	}
	v.folder = folder
	for other := range m.pending {
		switch {
		case other == v:
		case other.carried && (v.touches(other) || other.touches(v)):
			return false
		case v.touches(other):
			other.stale = true
		}
	}
	v.carried = true
	return true
}

// touches reports whether a move changes the paths that another move was decided on.
func (v *move) touches(other *move) bool {
	return overlap(other.names, v.names) || v.folder && anyWithin(other.names, v.names)
}

func (m *moves) end(v *move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, v)
	if v.carried && v.folder { // or it has failed, which changes nothing
		m.last[m.count%maxMoves] = v.names
		m.count++
	}
}

// changed reports whether names may have been moved since. The caller holds m.mu.
func (m *moves) changed(names []string, since uint64) bool {
	if m.count-since > maxMoves {
		return true
	}
	for ; since < m.count; since++ {
		if overlap(m.last[since%maxMoves], names) {
			return true
		}
	}
	return false
}

// overlap reports whether one of names lies below one of others.
func overlap(others, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return within(path.Dir(name), others) })
}

// anyWithin reports whether one of names is one of others, or lies below one.
func anyWithin(names, others []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return within(name, others) })
}

// retryMoved carries out a call, and repeats it while it fails with errMoved.
func (c *call) retryMoved(act func() error) error {
	for began, n := time.Now(), 0; ; n++ {
		c.since = c.moves.now()
		err := act()
		switch {
		case !errors.Is(err, errMoved):
			return err
		case n >= maxAnew || time.Since(began) > longestAnew:
			return unix.EBUSY
		}
	}
}

// carryOutMake carries out work that makes a name in a folder. If the new name is rejected afterwards, it is removed.
func (c *call) carryOutMake(p place, work func() error) error {
	names := p.paths()
	if p.insideOnly {
		return c.runInDomain(work)
	}
	if !c.moves.make(names, c.since) {
		return errMoved
	}
	defer c.moves.made(names)
	_, missing := p.stat()
	if err := c.runInDomain(work); err != nil {
		return err
	}
	made := c.leaves() != LeavesNothing && (missing != nil || !c.opens())
	undo := func() error {
		if !made {
			return nil // the file has been there, and the process does not get it
		}
		flags := 0
		if p.isFolder() {
			flags = unix.AT_REMOVEDIR
		}
		return unix.Unlinkat(p.dir, p.base, flags)
	}
	switch {
	case made && p.hasMoved():
		_ = c.runInDomain(undo)
		return errMoved
	case c.rechecks(p):
		return c.recheck(c.changes(Write, p), undo)
	}
	return nil
}

// hasMoved reports whether the folder of a place no longer has the path that was decided on: a process outside of this
// sandbox, for example in the sandbox of a terminal, has renamed it.
func (p place) hasMoved() bool {
	if p.base == "" || p.insideOnly || !strings.HasPrefix(p.real, "/") {
		return false
	}
	if real, err := pathOf(p.dir); err == nil && real == path.Dir(p.real) {
		return false
	}
	if !p.within { // otherwise the descriptor has a path inside
		return true
	}
	how := unix.OpenHow{Flags: held | unix.O_DIRECTORY, Resolve: unix.RESOLVE_NO_SYMLINKS}
	fd, err := unix.Openat2(unix.AT_FDCWD, path.Dir(p.real), &how)
	if err != nil {
		return true
	}
	defer unix.Close(fd)
	var there, here unix.Stat_t
	return unix.Fstat(fd, &there) != nil || unix.Fstat(p.dir, &here) != nil || there.Dev != here.Dev || there.Ino != here.Ino
}

// rechecks reports whether a new name is decided on twice.
func (c *call) rechecks(p place) bool {
	r, ok := c.decider.(Rechecker)
	return ok && p.base != "" && slices.ContainsFunc(p.paths(), r.Rechecks)
}

// opens reports whether the call opens a file.
func (c *call) opens() bool {
	switch c.data.number {
	case sysOpen, unix.SYS_OPENAT, sysCreat:
		return true
	}
	return false
}

// recheck decides once more on changes that were made, and undoes them if they are rejected.
func (c *call) recheck(events []Event, undo func() error) error {
	for i := range events {
		events[i].Made = true
	}
	err := c.allowed(events...)
	if err != nil {
		_ = c.runInDomain(undo)
	}
	return err
}
