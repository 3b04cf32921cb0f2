//go:build amd64 || arm64

package sandbox

import "testing"

// TestMove_DecidedAgainAfterChange: a move is decided again if a file was added to the moved folder, or if another call
// moves the folder.
func TestMove_DecidedAgainAfterChange(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(m *moves, since uint64)
		carried   bool
	}{
		"nothing happens":           {func(*moves, uint64) {}, true},
		"a file beside":             {func(m *moves, since uint64) { m.make([]string{"/w/from2/a"}, since); m.made([]string{"/w/from2/a"}) }, true},
		"a file in it":              {func(m *moves, since uint64) { m.make([]string{"/w/from/a/b"}, since); m.made([]string{"/w/from/a/b"}) }, false},
		"a file that is being made": {func(m *moves, since uint64) { m.make([]string{"/w/to/a"}, since) }, false},
		"a folder into it":          {func(m *moves, since uint64) { carry(m, since, "/w/x", "/w/from/x") }, false},
		"a folder in its place":     {func(m *moves, since uint64) { carry(m, since, "/w/x", "/w/from") }, false},
		"the folder above":          {func(m *moves, since uint64) { carry(m, since, "/w", "/v") }, false},
		"a folder beside":           {func(m *moves, since uint64) { carry(m, since, "/w/x", "/w/y") }, true},
	} {
		t.Run(name, func(t *testing.T) {
			var m moves
			since := m.now()
			v := m.begin([]string{"/w/from", "/w/to"}, since)
			c.meanwhile(&m, since)
			if got := m.carry(v, true); got != c.carried {
				t.Errorf("it is carried out: %v", got)
			}
		})
	}
}

// TestMove_NameDecidedAgainAfterMoveAbove: a name is decided again if a folder above it was moved after the decision,
// or is being moved.
func TestMove_NameDecidedAgainAfterMoveAbove(t *testing.T) {
	var m moves
	since := m.now()
	carry(&m, since, "/w/from", "/w/to")
	if m.make([]string{"/w/from/a"}, since) || m.make([]string{"/w/to/a/b"}, since) {
		t.Error("a name in a folder that was moved is made")
	}
	if !m.make([]string{"/w/from"}, since) || !m.make([]string{"/w/from/a"}, m.now()) {
		t.Error("another name is not made")
	}
	v := m.begin([]string{"/v/from", "/v/to"}, m.now())
	if !m.carry(v, true) || m.make([]string{"/v/to/a"}, m.now()) {
		t.Error("a name in a folder that is being moved is made")
	}
	m.end(v)
	since = m.now()
	for range maxMoves + 1 {
		carry(&m, m.now(), "/u/from", "/u/to")
	}
	if m.make([]string{"/x"}, since) {
		t.Error("a name is made after more moves than are known")
	}
}

func carry(m *moves, since uint64, names ...string) {
	v := m.begin(names, since)
	m.carry(v, true)
	m.end(v)
}

// TestMove_ConcurrentReplacementsSucceed: several programs may replace one file at the same time.
func TestMove_ConcurrentReplacementsSucceed(t *testing.T) {
	var m moves
	one, other := m.begin([]string{"/w/a.1", "/w/a"}, m.now()), m.begin([]string{"/w/a.2", "/w/a"}, m.now())
	if !m.carry(one, false) || !m.carry(other, false) {
		t.Error("a file has to wait for another one")
	}
}
