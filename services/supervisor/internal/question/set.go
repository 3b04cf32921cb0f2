package question

import (
	"crypto/sha256"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/jsonrpc"
)

// Observer is told of the questions that wait for a person. Each question's begin is told before its end, and each once.
// Its methods are called from the data path: they must not wait for anything, nor answer a question.
type Observer interface {
	// Asked tells that a question waits. It belongs to the callee too, and must not be changed.
	Asked(q *Question)
	// Expires tells that a question which waited without limit ends at a time if nobody answers; zero: it waits again.
	Expires(q *Question, at time.Time)
	// Ended tells how a question ended.
	Ended(q *Question, e End)
}

// Options are what the questions of a link have in common.
type Options struct {
	// Observer is told of them; nil: nobody is.
	Observer Observer
	// Waiting, if set, counts questions: 1 as one begins, -1 as it ends.
	Waiting func(n int)
	// Post sends a line to the client, without waiting.
	Post func(line []byte)
	// Attended reports whether somebody is there to answer; nil: somebody is. Where nobody is, a question waits for as long
	// as Unattended says. It must not wait for anything.
	Attended   func() bool
	Unattended time.Duration
	// Program: the client is a program that answers no questions by itself.
	Program bool
	// Grace is how long after the end of its turn an editor may take to answer a permission request.
	Grace time.Duration
	// Logger gets what goes wrong while a question ends; nil: slog's default one.
	Logger *slog.Logger
}

// Bounds on the agent's questions that wait at once. One more is refused.
const (
	MaxOpen      = 1024
	maxOpenBytes = 64 << 20 // of what they show; one question alone may be larger
)

const (
	// maxSpent bounds how many ids are kept that the client has yet to answer though nobody waits for it. Beyond that no
	// question is put to a client which leaves so many open.
	maxSpent = 16 << 10
	// maxPast bounds the same where the client is a program: how many questions one run of an agent can ask.
	maxPast = 128 << 10
)

// Set is the questions of one link. It is safe for concurrent use.
//
// It remembers the ids of questions that ended without the client, which may still answer them: they are spent. Until the
// client has answered, the agent cannot use such an id again, since what a person answers to one question must not count for
// another. A program never answers, and whoever was told of a question answers it by its id at any time: there an id is
// spent for good.
type Set struct {
	opts Options

	mu    sync.Mutex // guards what follows
	open  int
	bytes int64
	spent map[[sha256.Size]byte]struct{}
}

// NewSet returns a Set of no questions.
func NewSet(o Options) *Set {
	return &Set{opts: o, spent: map[[sha256.Size]byte]struct{}{}}
}

// Add makes q, of which the caller has set what it knows, a question of the set that asker asks.
func (s *Set) Add(q *Question, asker Asker) *Question {
	q.set, q.asker = s, asker
	q.done = make(chan struct{})
	return q
}

func spentKey(id []byte) [sha256.Size]byte { return sha256.Sum256([]byte(jsonrpc.CanonicalID(id))) }

// Spent reports whether an id is spent.
func (s *Set) Spent(id []byte) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spent) == 0 {
		return false
	}
	_, ok := s.spent[spentKey(id)]
	return ok
}

// ClientAnswered frees an id that the client has answered.
func (s *Set) ClientAnswered(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spent) > 0 {
		delete(s.spent, spentKey(id))
	}
}

func (s *Set) spend(id []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spent[spentKey(id)] = struct{}{}
}

// enter makes room for a question; false: there is none.
func (s *Set) enter(q *Question) bool {
	most := maxSpent
	if s.opts.Program {
		most = maxPast
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.spent) >= most || s.open >= MaxOpen || s.open > 0 && s.bytes+q.size() > maxOpenBytes {
		return false
	}
	s.open++
	s.bytes += q.size()
	return true
}

func (s *Set) leave(q *Question) {
	s.mu.Lock()
	s.open--
	s.bytes -= q.size()
	s.mu.Unlock()
}

// tell tells observers that a question waits (1), or how it ended (-1).
func (s *Set) tell(q *Question, waits int, tell func(Observer)) {
	if s.opts.Waiting != nil {
		s.opts.Waiting(waits)
	}
	if s.opts.Observer != nil {
		q.telling.Lock()
		defer q.telling.Unlock()
		tell(s.opts.Observer)
	}
}

// nobodySaid says that nobody answered in time, or that nobody is there to.
func (s *Set) nobodySaid() string {
	if s.opts.Unattended <= time.Millisecond {
		return "nobody is there to answer"
	}
	return fmt.Sprintf("nobody answered within %v", s.opts.Unattended)
}
