package link

import (
	"crypto/sha256"
	"strings"
	"sync"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

const (
	// maxSpent bounds how many ids are kept that the front has yet to answer though nobody waits for it. Beyond that no
	// question is put to a front which leaves so many open.
	maxSpent = 16 << 10
	// maxPast bounds the same where the front is a program: how many questions one run of an agent can ask.
	maxPast = 128 << 10
)

// spentIDs are the ids of questions that were ended without the front, which may still answer them. Until it does, the
// agent cannot use such an id again: what a person answers to one question must not count for another. A program at the
// front never does, and whoever was told of a question answers it by its id at any time: there it is spent for good.
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

// full tells whether there is no room for one more.
func (s *spentIDs) full(headless bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if headless {
		return len(s.ids) >= maxPast
	}
	return len(s.ids) >= maxSpent
}

// spentFor tells whether an id cannot be that of a request of the agent's with a method. The ids of our own questions are
// told to whoever asks, so that an agent could take one over, once its question has ended, to have the answer count.
func (l *Link) spentFor(method string, id []byte) bool {
	question := method == acp.MethodRequestPermission || method == acp.MethodElicitationCreate
	if question && looksOurs(id) {
		return true
	}
	return (question || !l.opts.Headless) && l.spent.has(id)
}

// looksOurs tells whether an id has the form of those that our own questions have, however it is spelled.
func looksOurs(id []byte) bool {
	text, ok := strings.CutPrefix(jsonrpc.CanonicalID(id), `"`)
	return ok && len(text) == ownIDLength && strings.Trim(text, ownIDAlphabet) == ""
}

// The form of jsonrpc.NewID.
const (
	ownIDLength   = 26
	ownIDAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
)

// takeAway is take for a call that is open at the front, and that somebody else ends. Its id is spent before it is free.
func (l *Link) takeAway(c *agentCall) bool {
	s := &l.spent
	s.mu.Lock()
	if !c.taken.CompareAndSwap(false, true) {
		s.mu.Unlock()
		return false
	}
	if s.ids == nil {
		s.ids = map[[sha256.Size]byte]struct{}{}
	}
	s.ids[spentKey(c.id)] = struct{}{}
	s.mu.Unlock()
	l.agentCalls.Take(c.id)
	c.end()
	return true
}
