package link

import "sync"

// Bytes that are reserved for an answer of unknown size, and at least for any answer.
const (
	firstGuess = 8 << 20
	leastGuess = 64 << 10
)

// sizes estimates the size of a method's next answer from its last ones.
type sizes struct {
	mu     sync.Mutex
	recent map[string]int64
}

// expect returns the estimate for a method, in bytes.
func (s *sizes) expect(method string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.recent[method]
	if !ok {
		return firstGuess
	}
	return max(n, leastGuess)
}

// answered corrects the estimate: up at once, down by an eighth of the difference at a time.
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
