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

// Retention is how long a released terminal can still be watched and listed.
const Retention = 30 * time.Second

// DefaultOutput is the default limit of text kept, in bytes.
const DefaultOutput = 1 << 20

// maxEnding lets a session with a small limit create a terminal right after it released one.
const maxEnding = 64

// Errors, found with errors.Is.
var (
	// ErrUnknown: there is no such terminal in this scope.
	ErrUnknown = errors.New("no such terminal")
	// ErrTooMany: the session has reached its limit of terminals.
	ErrTooMany = errors.New("too many terminals")
	// ErrEnded: the session or the whole daemon is ending.
	ErrEnded = errors.New("the session has ended")
)

// Limits are the limits of commands.
type Limits struct {
	// PerScope limits the terminals of a scope that were created and not released. As many, plus maxEnding, may be
	// ending.
	PerScope int
	// Output limits the bytes of text that one terminal keeps, and Total those of all terminals, including raw output.
	Output int
	Total  int64
	// RunTime limits the run time of a command. 0: unlimited.
	RunTime time.Duration
	// Grace is the time between SIGTERM and SIGKILL.
	Grace time.Duration
	// Confinement are the restrictions of commands.
	Confinement proc.Confinement
}

// DefaultLimits returns the default limits.
func DefaultLimits() Limits {
	return Limits{PerScope: 256, Output: 10 << 20, Total: 256 << 20, Grace: 2 * time.Second}
}

// Guard is notified of sessions, so that it can end them when this process dies.
type Guard interface {
	Add(session int)
	Remove(session int)
}

// Options configure Terminals.
type Options struct {
	Log *slog.Logger
	// Limits are the initial limits. Default: DefaultLimits.
	Limits *Limits
	// Retention is how long a released terminal is kept. Default (0): Retention.
	Retention time.Duration
	// Mark is added to the environment of every command, "NAME=VALUE". Empty: none.
	Mark string
	// Guard may be nil.
	Guard Guard
	// Adopt means that this process is the subreaper of all processes that it starts, and that no other code in it
	// starts processes except those that Exclude returns: all others are reaped, and ended when the last terminal is
	// gone.
	Adopt   bool
	Exclude func() []int
}

// Terminals are all terminals of this process. Make them with New and end them with Close. All methods are safe for
// concurrent use.
type Terminals struct {
	log       *slog.Logger
	retention time.Duration
	mark      string
	guard     Guard
	adopt     bool
	exclude   func() []int

	idMint     *idMint
	budget     *ring.Budget
	warnOnce   sync.Once
	closing    sync.Once
	busy       sync.WaitGroup // background goroutines, which end by themselves
	stopReaper func()
	snapshots  snapshots

	// fork is held for reading from before a command is started until it is registered in leaders, and for writing to
	// decide which processes belong to this package.
	fork sync.RWMutex

	mu        sync.Mutex
	limits    Limits
	closed    bool
	scopes    map[string]*scope
	byID      map[string]*Terminal // including those released less than Retention ago
	leaders   map[int]*Terminal    // by pid, until they are reaped
	active    int                  // terminals that are starting, alive or ending
	evictions map[*Terminal]*time.Timer
}

// scope contains a session's terminals. It exists while it has some. Once it has ended, terminals that are being
// created fail.
type scope struct {
	name     string
	alive    map[string]*Terminal
	creating int
	ending   int
	ended    bool
}

// New returns an empty set of terminals.
func New(o Options) *Terminals {
	limits := DefaultLimits()
	if o.Limits != nil {
		limits = *o.Limits
	}
	s := &Terminals{
		log: o.Log, retention: cmp.Or(o.Retention, Retention), mark: o.Mark, guard: o.Guard, adopt: o.Adopt, exclude: o.Exclude,
		idMint: newMint(), stopReaper: func() {}, snapshots: newSnapshots(), budget: ring.NewBudget(limits.Total), limits: limits,
		scopes: map[string]*scope{}, byID: map[string]*Terminal{}, leaders: map[int]*Terminal{}, evictions: map[*Terminal]*time.Timer{},
	}
	if s.adopt {
		s.stopReaper = s.startReaper()
	}
	return s
}

// SetLimits changes the limits for new terminals.
func (s *Terminals) SetLimits(limits Limits) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.limits = limits
	s.budget.SetLimit(limits.Total)
}

// SandboxObstacle returns which setting prevents commands from running in a sandbox, in words; empty: none.
func (s *Terminals) SandboxObstacle() string {
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

// Create starts a planned command on a terminal that belongs to the scope and keeps limit bytes of text, or as many as
// the limits allow. Errors: ErrTooMany, ErrEnded, command.ErrCannotStart, command.ErrInvalid.
func (s *Terminals) Create(scopeName string, plan command.Plan, limit uint64) (*Terminal, error) {
	if err := plan.Startable(); err != nil {
		return nil, err
	}
	group, limits, err := s.reserve(scopeName)
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
	group.creating--
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

// Get returns a terminal of a scope that was not released.
func (s *Terminals) Get(scopeName, id string) (*Terminal, error) {
	t, err := s.Find(scopeName, id)
	if err == nil && closed(t.released) {
		return nil, ErrUnknown
	}
	return t, err
}

// Find returns a terminal of a scope, even if it was released less than Retention ago.
func (s *Terminals) Find(scopeName, id string) (*Terminal, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[id]; t != nil && t.scope == scopeName {
		return t, nil
	}
	return nil, ErrUnknown
}

// Release releases a terminal: its id becomes invalid at once, waiting calls return, and running processes are ended in
// the background. Releasing it again is no error.
func (s *Terminals) Release(scopeName, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.byID[id]; t != nil && t.scope == scopeName {
		s.release(t)
		return nil
	}
	if s.idMint.issued(scopeName, id) {
		return nil
	}
	return ErrUnknown
}

// ReleaseScope releases all terminals of a scope, including those being created, and returns when their processes are
// dead.
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

// List lists terminals, oldest first: those of a scope, or all for an empty name.
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

// reserve reserves a place for a new terminal in the scope.
func (s *Terminals) reserve(name string) (*scope, Limits, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, Limits{}, ErrEnded
	}
	group := s.scopes[name]
	if group == nil {
		group = &scope{name: name, alive: map[string]*Terminal{}}
	}
	if alive := len(group.alive) + group.creating; alive >= s.limits.PerScope {
		return nil, Limits{}, fmt.Errorf("%w: this session has %d already, and no more are allowed: release one first "+
			"(setting: max_terminals_per_session)", ErrTooMany, alive)
	}
	if group.ending >= s.limits.PerScope+maxEnding {
		return nil, Limits{}, fmt.Errorf("%w: %d commands of this session are still being ended: try again later",
			ErrTooMany, group.ending)
	}
	s.scopes[name] = group
	group.creating++
	s.active++
	s.busy.Add(1)
	return group, s.limits, nil
}

// start starts the command and its goroutines.
func (s *Terminals) start(group *scope, plan command.Plan, limit int, limits Limits) (*Terminal, error) {
	t := newTerminal(s, group, plan, limit, limits)
	t.id, t.scope = s.idMint.id(group.name), group.name
	env := append(slices.Clone(plan.Env), t.mark)
	if s.mark != "" {
		env = append(env, s.mark)
	}

	s.fork.RLock()
	defer s.fork.RUnlock()
	var err error
	if plan.Sandbox != nil {
		limits.Confinement.NoSeccomp = true // the sandbox installs the filter together with its own
	}
	if t.master, t.leader, err = startCommand(plan, env, s.confineFunc(limits)); err != nil {
		return nil, err
	}
	t.tree = s.newTree(t.leader.pid, t.mark)
	s.mu.Lock()
	s.leaders[t.leader.pid] = t
	s.mu.Unlock()
	if s.guard != nil {
		s.guard.Add(t.leader.pid)
	}
	if limits.RunTime > 0 {
		t.runTimer = time.AfterFunc(limits.RunTime, func() {
			defer panics.Recover(s.log, "ending a command that ran too long")
			s.log.Info("a command ran longer than it may and is ended", "terminal", t.id, "after", limits.RunTime)
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
		raw: ring.New(min(max(limit, minRaw), max(limits.Output, minRaw)), s.budget), back: ring.New(limit, s.budget),
	}
	t.screen = plaintext.New(t.back)
	return t
}

// release removes a terminal from its scope and disposes of it in the background. The caller holds mu. A second call
// does nothing.
func (s *Terminals) release(t *Terminal) {
	if closed(t.released) {
		return
	}
	close(t.released)
	delete(t.group.alive, t.id)
	t.group.ending++
	s.busy.Go(panics.Guard(s.log, "releasing a terminal", func() { s.dispose(t) }))
}

// prune removes an empty scope. The caller holds mu.
func (s *Terminals) prune(group *scope) {
	if len(group.alive) == 0 && group.creating == 0 && group.ending == 0 && s.scopes[group.name] == group {
		delete(s.scopes, group.name)
	}
}
