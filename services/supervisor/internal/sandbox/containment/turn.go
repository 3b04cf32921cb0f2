package containment

import "sync"

// Limits on what the user gets to see from an agent's processes.
const (
	// maxQuestions limits the open questions about process actions.
	maxQuestions = 16
	// maxNotices limits the denials that the user is notified of in one turn.
	maxNotices = 20
	// maxDenials limits the denials, and the refused questions, that are remembered. Beyond the limit, a repeated
	// denial may be recorded again, and a question be asked again.
	maxDenials = 4096
)

// turnState is the state of the current turns: their denials, and the open questions to the user. The zero value is
// ready for use. It is safe for concurrent use.
type turnState struct {
	mu      sync.Mutex
	asking  map[string]bool    // open questions, by gate.Decision.Key
	refused map[string]refusal // questions that ended without an allowance, by gate.Decision.Key
	turns   string             // key of the turns that denied belongs to
	denied  map[string]bool    // by gate.Decision.DenialKey
	notices int
	lost    map[string]string // by session, the last turn in which the sandbox could not follow a process
}

// refusal is the end of a question that did not allow its action.
type refusal struct {
	turn string // key of the turn that the question belongs to
	why  string // gate.Decision.Reason
}

// firstDenial reports whether a denial, by its key, is the first of its kind in the current turns.
func (s *turnState) firstDenial(turns, key string) bool {
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

// countNotice counts one more denial of the turn, and returns the count.
func (s *turnState) countNotice() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notices++
	return s.notices
}

// lose notes that the sandbox could not observe a process in a turn of a session.
func (s *turnState) lose(session, turn string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost == nil || len(s.lost) >= maxDenials {
		s.lost = map[string]string{}
	}
	s.lost[session] = turn
}

// sees reports whether all process actions in the newest turn of a session were observed.
func (s *turnState) sees(session, turn string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost[session] != turn
}

// Results of turnState.ask.
const (
	askedNow = iota
	askedAlready
	askedAndRefused
	tooManyAsked
)

// ask opens the question about an action, by its key, if there is none in the turn. why is the reason of an earlier
// refusal.
func (s *turnState) ask(key, turn string) (state int, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, ended := s.refused[key]
	switch {
	case s.asking[key]:
		return askedAlready, ""
	case ended && before.turn == turn:
		return askedAndRefused, before.why
	case len(s.asking) >= maxQuestions:
		return tooManyAsked, ""
	case s.asking == nil:
		s.asking = map[string]bool{}
	}
	s.asking[key] = true
	return askedNow, ""
}

// answered closes a question. After an allowance, the gate decides about the next try. Any other end holds for the rest
// of the turn: without a person, each try would otherwise open a question that ends at once.
func (s *turnState) answered(key, turn string, allowed bool, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.asking, key)
	if allowed {
		delete(s.refused, key)
		return
	}
	if s.refused == nil || len(s.refused) >= maxDenials {
		s.refused = map[string]refusal{}
	}
	s.refused[key] = refusal{turn, why}
}
