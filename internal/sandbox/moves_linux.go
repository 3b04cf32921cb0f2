//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"path"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A folder that gets another name is decided on with all that lies in it. So while that is decided on, nothing may
// come into it, and no name may be made by a path that was decided on before. Such calls are not held up: who comes
// second is decided on anew.

// errMoved says that a folder has got another name, or something has come into it, since a call was decided on.
var errMoved = errors.New("moved meanwhile")

// How often, and for how long, a call is decided on anew. It fails then (EBUSY).
const (
	mostAnew    = 16
	longestAnew = 3 * time.Second
)

// mostMoves is how many of the last moves of folders are known.
const mostMoves = 64

// moves are those of a sandbox's processes. The zero value is ready.
type moves struct {
	mu      sync.Mutex
	pending map[*move]bool
	making  map[string]int // names that are being made
	count   uint64         // moves of folders that were carried out
	last    [mostMoves][]string
}

// move gives names away, or takes them.
type move struct {
	names   []string
	stale   bool // something has come below them
	carried bool // it is being carried out
	folder  bool // it moves a folder
}

// now is what a call is to know before it follows a path.
func (m *moves) now() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.count
}

// make has names be made, unless a move has made other ones of them since. If it reports true, made has to be called.
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

// begin is to be called before a move is decided on, and end after it.
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

// carry reports whether a move can be carried out as it was decided on. folder: it moves a folder. A file is no way for
// others to anywhere.
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

// touches reports whether a move changes what another one was decided on.
func (v *move) touches(other *move) bool {
	return overlap(other.names, v.names) || v.folder && anyWithin(other.names, v.names)
}

func (m *moves) end(v *move) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.pending, v)
	if v.carried && v.folder { // or it has failed, which changes nothing
		m.last[m.count%mostMoves] = v.names
		m.count++
	}
}

// changed reports whether names may have been moved since. m.mu is locked.
func (m *moves) changed(names []string, since uint64) bool {
	if m.count-since > mostMoves {
		return true
	}
	for ; since < m.count; since++ {
		if overlap(m.last[since%mostMoves], names) {
			return true
		}
	}
	return false
}

// overlap reports whether names lie below others.
func overlap(others, names []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return within(path.Dir(name), others) })
}

// anyWithin reports whether one of names is one of others, or lies below.
func anyWithin(names, others []string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return within(name, others) })
}

// anew makes a call, and once more as long as something was moved meanwhile.
func (c *call) anew(act func() error) error {
	for began, n := time.Now(), 0; ; n++ {
		c.since = c.moves.now()
		err := act()
		switch {
		case !errors.Is(err, errMoved):
			return err
		case n >= mostAnew || time.Since(began) > longestAnew:
			return unix.EBUSY
		}
	}
}

// makes carries out what makes a name in a folder.
func (c *call) makes(p place, work func() error) error {
	names := p.paths()
	if p.mine {
		return c.under(work)
	}
	if !c.moves.make(names, c.since) {
		return errMoved
	}
	defer c.moves.made(names)
	return c.under(work)
}
