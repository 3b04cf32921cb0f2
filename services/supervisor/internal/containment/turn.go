package containment

import "sync"

// Bounds on what an agent's processes can have the user see.
const (
	// maxQuestions is how many questions about what processes have tried wait at once.
	maxQuestions = 16
	// maxNotices is how many denials the user is told of in one turn.
	maxNotices = 20
	// maxDenials is how many denials of one turn are known, so that each has one record. If there are more, those that are
	// repeated may be recorded again.
	maxDenials = 4096
)

// turnState is what is known of the turns that are under way: what was denied in them, and what the user is being asked. The zero value
// is ready. It is safe for concurrent use.
type turnState struct {
	mu      sync.Mutex
	asking  map[string]bool // what the user is being asked about, by gate.Decision.Key
	turns   string          // the turns that denied is about
	denied  map[string]bool // by gate.Decision.DenialKey
	notices int
	lost    map[string]string // by session, the turn in which the sandbox could not tell what a process does
}

// first reports whether a denial, by its key, is the first of its kind in the turns that are under way.
func (s *turnState) first(turns, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.turns != turns || s.denied == nil {
		s.turns, s.denied, s.notices = turns, map[string]bool{}, 0
	}
	if s.denied[key] {
		return false
	}
	if len(s.denied) >= maxDenials {
		clear(s.denied)
	}
	s.denied[key] = true
	return true
}

// noticed counts one more denial of the turn, and returns how many there are.
func (s *turnState) noticed() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices++
	return s.notices
}

// lose notes that what a process does in a turn of a session was not seen.
func (s *turnState) lose(session, turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil || len(s.lost) >= maxDenials {
		s.lost = map[string]string{}
	}
	s.lost[session] = turn
}

// sees reports whether all was seen that processes have done in a turn of a session, which is the newest one.
func (s *turnState) sees(session, turn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[session] != turn
}

// What becomes of a question about a try.
const (
	askedNow = iota
	askedAlready
	tooManyAsked
)

func (s *turnState) ask(key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.asking[key]:
		return askedAlready
	case len(s.asking) >= maxQuestions:
		return tooManyAsked
	case s.asking == nil:
		s.asking = map[string]bool{}
	}
	s.asking[key] = true
	return askedNow
}

func (s *turnState) answered(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, key)
}
