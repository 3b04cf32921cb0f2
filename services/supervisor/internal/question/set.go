package question

import (
	"crypto/sha256"
	"log/slog"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

// Observer receives notifications about the questions that wait for a person. It gets the begin of each question once, and then its end
// once. The methods are called from the data path. They must not block, and must not answer a question.
type Observer interface {
	// Asked is called when a question begins to wait. The callee may keep the question, and must not change it.
	Asked(q *Question)
	// Expires is called when a waiting question gets a time at which it ends without an answer; zero: it no longer has one.
	Expires(q *Question, at time.Time)
	// Ended is called when a question has ended.
	Ended(q *Question, e End)
}

// Options configure the questions of a link.
type Options struct {
	// Observer receives notifications; nil: none.
	Observer Observer
	// Waiting, if set, counts questions: 1 when one begins, -1 when it ends.
	Waiting func(n int)
	// Post sends a line to the client, without blocking.
	Post func(line []byte)
	// Attended reports whether somebody is there to answer; nil: always. If nobody is, a question waits for Unattended. Attended must not
	// block.
	Attended   func() bool
	Unattended time.Duration
	// Program: the client is a program that never answers questions itself.
	Program bool
	// Grace is how long an editor may take to answer a permission request after the end of its turn.
	Grace time.Duration
	// Logger receives failures while a question ends; nil: slog's default logger.
	Logger *slog.Logger
}

// Limits on the agent's questions that wait at once. Further questions are refused.
const (
	MaxOpen      = 1024
	maxOpenBytes = 64 << 20 // of their params and tool calls; a single question may be larger
)

const (
	// maxSpent limits the ids of ended questions that the client has not answered yet. Beyond the limit, such a client gets no further
	// questions.
	maxSpent = 16 << 10
	// maxPast is the same limit for a client that is a program: the number of questions in one run of an agent.
	maxPast = 128 << 10
)

// Set holds the questions of one link. It is safe for concurrent use.
//
// It remembers the ids of questions that ended without an answer of the client. The client may still answer them: their ids are spent. The
// agent cannot reuse a spent id until the client has answered, so that an answer to one question does not count for another. A program
// never answers, and other callers may answer a question by its id at any time, so with a program an id is spent for good.
type Set struct {
	opts Options

	mu    sync.Mutex // guards what follows
	open  int
	bytes int64
	spent map[[sha256.Size]byte]struct{}
}

// NewSet returns an empty Set.
func NewSet(o Options) *Set {
	return &Set{opts: o, spent: map[[sha256.Size]byte]struct{}{}}
}

// Add adds q, whose exported fields the caller has set, to the set, with its asker.
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

// ClientAnswered releases an id that the client has answered.
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

// enter takes room for a question; false: the limits are reached.
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

// tell notifies observers that a question waits (1), or has ended (-1).
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

// unansweredReason returns the reason of a denial because no user answered in time, or is there to answer.
func (s *Set) unansweredReason() string {
	if s.opts.Unattended <= time.Millisecond {
		return reason.NoUser.String()
	}
	return reason.NoAnswer.With(s.opts.Unattended)
}
