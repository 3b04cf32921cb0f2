package link

import (
	"crypto/sha256"
	"sync"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// maxSpent bounds how many ids are kept that the front has yet to answer though nobody waits for it. Beyond that no
// question is put to a front which leaves so many open.
const maxSpent = 16 << 10

// spentIDs are the ids of questions that were ended without the front, which may still answer them. Until it does, the
// agent cannot use such an id again: what a person answers to one question must not count for another.
type spentIDs struct {
	mu  sync.Mutex
	ids map[[sha256.Size]byte]struct{}
}

func spentKey(id []byte) [sha256.Size]byte { return sha256.Sum256([]byte(jsonrpc.CanonicalID(id))) }

// has tells whether an id is spent.
func (s *spentIDs) has(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) == 0 {
		return false
	}
	_, ok := s.ids[spentKey(id)]
	return ok
}

// answered frees an id that the front has answered; false: it was not spent.
func (s *spentIDs) answered(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.ids) == 0 {
		return false
	}
	key := spentKey(id)
	_, ok := s.ids[key]
	delete(s.ids, key)
	return ok
}

func (s *spentIDs) full() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.ids) >= maxSpent
}

// takeAway is take for a call that is open at the front, and that somebody else ends. Its id is spent before it is free.
// A front that is a program of ours answers no question by itself.
func (l *Link) takeAway(c *agentCall) bool {
	s := &l.spent
	s.mu.Lock()
	if !c.taken.CompareAndSwap(false, true) {
		s.mu.Unlock()
		return false
	}
	if !l.opts.Headless {
		if s.ids == nil {
			s.ids = map[[sha256.Size]byte]struct{}{}
		}
		s.ids[spentKey(c.id)] = struct{}{}
	}
	s.mu.Unlock()
	l.agentCalls.Take(c.id)
	c.end()
	return true
}
