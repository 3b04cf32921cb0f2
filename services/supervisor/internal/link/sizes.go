package link

import "sync"

// What is taken from the budget for an answer of unknown size, and at the least for any.
const (
	firstGuess = 8 << 20
	leastGuess = 64 << 10
)

// sizes guesses how large a method's next answer will be, by its last ones.
type sizes struct {
	mu     sync.Mutex
	recent map[string]int64
}

// expect returns the guess for a method, in bytes.
func (s *sizes) expect(method string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.recent[method]
	if !ok {
		return firstGuess
	}
	return max(n, leastGuess)
}

// answered corrects the guess: up at once, down by an eighth of the difference at a time.
func (s *sizes) answered(method string, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.recent == nil {
		s.recent = map[string]int64{}
	}
	old, ok := s.recent[method]
	switch {
	case !ok || n >= old:
		s.recent[method] = n
	default:
		s.recent[method] = old - (old-n+7)/8
	}
}
