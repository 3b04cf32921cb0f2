package terminal

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/proc"

	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/sdk/plaintext"
	"github.com/acphost/acphost/services/termd/internal/command"
	"github.com/acphost/acphost/services/termd/internal/ring"
)

// Retention is how long after its release a terminal can still be watched and listed.
const Retention = 30 * time.Second

// DefaultOutput is how many bytes of text are kept where a request does not say.
const DefaultOutput = 1 << 20

// goingMax lets a session with a small limit create a terminal right after it released one.
const goingMax = 64

// Errors, found with errors.Is.
var (
	// ErrUnknown: there is no such terminal in this scope.
	ErrUnknown = errors.New("no such terminal")
	// ErrTooMany: the session has as many terminals as it may.
	ErrTooMany = errors.New("too many terminals")
	// ErrEnded: the session or the whole daemon is ending.
	ErrEnded = errors.New("the session has ended")
)

// Limits bound what commands may use.
type Limits struct {
	// PerScope is how many terminals of a scope may be alive, created and not released. As many and goingMax more may be
	// on their way out.
	PerScope int
	// Output is the most bytes of text that one terminal keeps, and Total what all keep together, raw output included.
	Output int
	Total  int64
	// Wall is how long a command may run. 0: for ever.
	Wall time.Duration
	// Grace is how long after SIGTERM comes SIGKILL.
	Grace time.Duration
	// Confinement is what commands are started behind.
	Confinement proc.Confinement
}

// DefaultLimits are those that hold where nothing else is said.
func DefaultLimits() Limits {
	return Limits{PerScope: 256, Output: 10 << 20, Total: 256 << 20, Grace: 2 * time.Second}
}

// Guard learns which sessions there are, so that it can end them when this process dies.
type Guard interface {
	Add(session int)
	Remove(session int)
}

// Options are what Terminals are made with.
type Options struct {
	Log *slog.Logger
	// Limits to begin with. Default: DefaultLimits.
	Limits *Limits
	// Retention is how long after its release a terminal is kept. Default (0): Retention.
	Retention time.Duration
	// Mark is added to the environment of every command, "NAME=VALUE". Empty: nothing.
	Mark string
	// Guard may be nil.
	Guard Guard
	// Adopt says that this process is the subreaper of everything that it starts, and that nothing else in it starts
	// processes but those that Spare names: all others are reaped, and ended when the last terminal is gone.
	Adopt bool
	Spare func() []int
}

// Terminals are all terminals there are. Make them with New and end them with Close. All methods are safe for concurrent
// use.
type Terminals struct {
	log       *slog.Logger
	retention time.Duration
	mark      string
	guard     Guard
	adopt     bool
	spare     func() []int

	mint       *mint
	budget     *ring.Budget
	unconfined sync.Once
	closing    sync.Once
	busy       sync.WaitGroup // what runs in the background and ends by itself
	stopReaper func()
	trees      trees

	// fork is held for reading from before a command is started until it is entered in leaders, and for writing where
	// somebody must know which processes are ours.
	fork sync.RWMutex

	mu      sync.Mutex
	limits  Limits
	closed  bool
	scopes  map[string]*scope
	byID    map[string]*Terminal // those released less than Retention ago included
	leaders map[int]*Terminal    // by pid, until they are reaped
	active  int                  // terminals that are starting, alive or on their way out
	forget  map[*Terminal]*time.Timer
}

// scope is a session's terminals. It lives as long as it has some; its end is final for those that are being made.
type scope struct {
	name   string
	alive  map[string]*Terminal
	making int
	going  int
	ended  bool
}

// New makes an empty set of terminals.
func New(o Options) *Terminals {
	limits := DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	s := &Terminals{
		log: o.Log, retention: cmp.Or(o.Retention, Retention), mark: o.Mark, guard: o.Guard, adopt: o.Adopt, spare: o.Spare,
		mint: newMint(), stopReaper: func() {}, trees: newTrees(), budget: ring.NewBudget(limits.Total), limits: limits,
		scopes: map[string]*scope{}, byID: map[string]*Terminal{}, leaders: map[int]*Terminal{}, forget: map[*Terminal]*time.Timer{},
	}
	if s.adopt {
		s.stopReaper = s.startReaper()
	}
	return s
}

// SetLimits changes the limits for what comes.
func (s *Terminals) SetLimits(limits Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = limits
	s.budget.SetLimit(limits.Total)
}

// Unconfinable says in words which limit keeps commands from running in a sandbox; empty: none.
func (s *Terminals) Unconfinable() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch c := s.limits.Confinement; {
	case len(c.Keep) > 0:
		return "a command in the sandbox has no capabilities, and its settings give it some (capabilities)"
	case c.NoLandlock:
		return "a command is kept from its sandbox by Landlock, which its settings leave out (no_landlock)"
	case c.NoSeccomp:
		return "the sandbox consists of seccomp filters, which its settings leave out (no_seccomp)"
	}
	return ""
}

// Create starts what was planned, on a terminal that belongs to the scope and keeps limit bytes of text, or as many as
// the limits allow. Errors: ErrTooMany, ErrEnded, command.ErrCannotStart, command.ErrInvalid.
func (s *Terminals) Create(scopeName string, plan command.Plan, limit uint64) (*Terminal, error) {
	if err := plan.Startable(); err != nil {
		return nil, err
	}
	group, limits, err := s.enter(scopeName)
	if err != nil {
		return nil, err
	}
	defer s.busy.Done()
	t, err := s.start(group, plan, int(min(limit, uint64(limits.Output))), limits)
	var failed error
	if err == nil {
		failed = t.leader.started()
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	group.making--
	if err != nil {
		s.active--
		s.prune(group)
		return nil, err
	}
	s.byID[t.id] = t
	group.alive[t.id] = t
	switch {
	case group.ended || s.closed:
		s.release(t)
		return nil, ErrEnded
	case failed != nil:
		s.release(t)
		return nil, command.CannotStart(plan.Args[0], failed)
	}
	return t, nil
}

// Get finds a terminal of a scope that was not released.
func (s *Terminals) Get(scopeName, id string) (*Terminal, error) {
	t, err := s.Find(scopeName, id)
	if err == nil && closed(t.released) {
		return nil, ErrUnknown
	}
	return t, err
}

// Find finds a terminal of a scope, also if it was released less than Retention ago.
func (s *Terminals) Find(scopeName, id string) (*Terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[id]; t != nil && t.scope == scopeName {
		return t, nil
	}
	return nil, ErrUnknown
}

// Release gives a terminal back: its id is void at once, who waits for it is answered, and what still runs is ended in
// the background. Doing it again is no error.
func (s *Terminals) Release(scopeName, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[id]; t != nil && t.scope == scopeName {
		s.release(t)
		return nil
	}
	if s.mint.made(scopeName, id) {
		return nil
	}
	return ErrUnknown
}

// ReleaseScope gives everything back that a scope owns, also what is being made, and returns when it is dead.
func (s *Terminals) ReleaseScope(scopeName string) {
	s.mu.Lock()
	group := s.scopes[scopeName]
	var gone []*Terminal
	if group != nil {
		group.ended = true
		delete(s.scopes, scopeName)
		for _, t := range group.alive {
			gone = append(gone, t)
			s.release(t)
		}
	}
	s.mu.Unlock()
	for _, t := range gone {
		<-t.end().done
	}
}

// List lists terminals, oldest first: those of a scope, or with an empty name all.
func (s *Terminals) List(scopeName string) []Info {
	s.mu.Lock()
	var found []*Terminal
	for _, t := range s.byID {
		if scopeName == "" || t.scope == scopeName {
			found = append(found, t)
		}
	}
	s.mu.Unlock()
	infos := make([]Info, len(found))
	for i, t := range found {
		infos[i] = t.Info()
	}
	slices.SortFunc(infos, func(a, b Info) int {
		return cmp.Or(a.Start.Compare(b.Start), cmp.Compare(a.PID, b.PID))
	})
	return infos
}

// enter takes a place for a new terminal in the scope.
func (s *Terminals) enter(name string) (*scope, Limits, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, Limits{}, ErrEnded
	}
	group := s.scopes[name]
	if group == nil {
		group = &scope{name: name, alive: map[string]*Terminal{}}
	}
	if alive := len(group.alive) + group.making; alive >= s.limits.PerScope {
		return nil, Limits{}, fmt.Errorf("%w: this session has %d already, and no more are allowed: release one first "+
			"(setting: max_terminals_per_session)", ErrTooMany, alive)
	}
	if group.going >= s.limits.PerScope+goingMax {
		return nil, Limits{}, fmt.Errorf("%w: %d commands of this session are still being ended: try again later",
			ErrTooMany, group.going)
	}
	s.scopes[name] = group
	group.making++
	s.active++
	s.busy.Add(1)
	return group, s.limits, nil
}

// start starts the command and what attends to it.
func (s *Terminals) start(group *scope, plan command.Plan, limit int, limits Limits) (*Terminal, error) {
	t := newTerminal(s, group, plan, limit, limits)
	t.id, t.scope = s.mint.id(group.name), group.name
	env := append(slices.Clone(plan.Env), t.mark)
	if s.mark != "" {
		env = append(env, s.mark)
	}

	s.fork.RLock()
	defer s.fork.RUnlock()
	var err error
	if plan.Sandbox != nil {
		limits.Confinement.NoSeccomp = true // the sandbox puts the filter around the command, with its own
	}
	if t.master, t.leader, err = startCommand(plan, env, s.confined(limits)); err != nil {
		return nil, err
	}
	t.tree = s.newTree(t.leader.pid, t.mark)
	s.mu.Lock()
	s.leaders[t.leader.pid] = t
	s.mu.Unlock()
	if s.guard != nil {
		s.guard.Add(t.leader.pid)
	}
	if limits.Wall > 0 {
		t.wall = time.AfterFunc(limits.Wall, func() {
			defer panics.Recover(s.log, "ending a command that ran too long")
			s.log.Info("a command ran longer than it may and is ended", "terminal", t.id, "after", limits.Wall)
			t.end()
		})
	}
	s.busy.Go(panics.Guard(s.log, "reading the output of a command", t.read, t.readFailed))
	s.busy.Go(panics.Guard(s.log, "waiting for the end of a command", t.await, t.awaitFailed))
	return t, nil
}

func newTerminal(s *Terminals, group *scope, plan command.Plan, limit int, limits Limits) *Terminal {
	t := &Terminal{
		mark: command.NewMark(command.Mark), plan: plan, limit: limit, started: time.Now(), owner: s, group: group,
		dead: make(chan struct{}), drained: make(chan struct{}), exited: make(chan struct{}), released: make(chan struct{}),
		raw: ring.New(min(max(limit, rawMin), max(limits.Output, rawMin)), s.budget), back: ring.New(limit, s.budget),
	}
	t.screen = plaintext.New(t.back)
	return t
}

// release takes a terminal out of its scope and has the rest done in the background. Call it with mu held; a second time
// it does nothing.
func (s *Terminals) release(t *Terminal) {
	if closed(t.released) {
		return
	}
	close(t.released)
	delete(t.group.alive, t.id)
	t.group.going++
	s.busy.Go(panics.Guard(s.log, "releasing a terminal", func() { s.dispose(t) }))
}

// prune drops a scope that has nothing. Call it with mu held.
func (s *Terminals) prune(group *scope) {
	if len(group.alive) == 0 && group.making == 0 && group.going == 0 && s.scopes[group.name] == group {
		delete(s.scopes, group.name)
	}
}
