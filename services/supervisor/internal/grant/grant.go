// Package grant remembers answers of the user, so that the user is not asked the same question again. A grant covers one
// simple command, one path, or one action in exactly its form. An action is covered if each part of it is covered.
//
// Grants of a turn or a session are kept in memory. All others are kept in a file that several supervisors share: if one of
// them takes a grant back, the grant ends for all at once; if one adds a grant, the others know it after a Reload.
//
// The package knows actions and grants. It must not know policies or questions: the gate decides whether a grant may replace
// an answer. A grant that allows never covers an action that the package cannot read. A grant that refuses covers even such an
// action.
package grant

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// DefaultDays is how long an answer that outlives its session is remembered.
const DefaultDays = 90

// idLength is that of the ids that are made here: 60 random bits.
const idLength = 12

// ErrUnknown says that there is no grant of an id, or none any more.
var ErrUnknown = errors.New("no such grant")

// Options say how a Store works.
type Options struct {
	// File is where grants are kept that outlive their session, an absolute path. Empty: they end with the Store.
	File string
	// Now is the clock. Nil: the system's.
	Now func() time.Time
	// Days is how long a grant that outlives its session is remembered, if it does not say itself. 0: DefaultDays.
	Days int
	// Logger is told of lines in the file that cannot be used. Nil: nobody is.
	Logger *slog.Logger
}

// Where says where an action meets the grants.
type Where struct {
	// Scope is the session's scope, by which sessions are told apart. Empty: no session; grants of sessions never match.
	Scope string
	// SessionID is ACP's, for people to see.
	SessionID string
	// Agent is the agent's configured name.
	Agent string
	// Workspace is the session's working directory, resolved. Empty: not known; then no command is covered but in
	// exactly its form.
	Workspace string
	// Turn is the number of the turn within the session.
	Turn uint64
}

// Verdict is what the grants say of an action.
type Verdict int

const (
	// None says that they do not cover it.
	None Verdict = iota
	// Allow says that they cover every part of it.
	Allow
	// Refuse says that some part of it was refused.
	Refuse
)

// String returns the verdict as a word.
func (v Verdict) String() string {
	return [...]string{None: "none", Allow: "allow", Refuse: "refuse"}[v]
}

// Result is what the grants say of an action.
type Result struct {
	Verdict Verdict
	// Grants are those that say so, each once.
	Grants []*supervisorv1.Grant
}

// Store holds grants. Safe for concurrent use, and for use of its file by several processes at once.
type Store struct {
	opts Options

	mu     sync.Mutex
	memory []entry // of turns and sessions; all, if there is no file
	kept   file
}

// entry is a grant with what only this process knows of it.
type entry struct {
	grant *supervisorv1.Grant
	scope string
	turn  uint64
}

// Open returns a Store with what its file holds. The file need not exist. It is an error if the file could be somebody
// else's doing: it or its folder can be written by others, or belongs to another user.
func Open(o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Days <= 0 {
		o.Days = DefaultDays
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &Store{opts: o, kept: file{path: o.File, logger: o.Logger}}
	if err := s.Reload(); err != nil {
		return nil, err
	}
	return s, nil
}

// Reload has all count that the file holds. Until then, what another process takes back or refuses there counts at once,
// and what it allows does not: a person says when, since agents of the same user can write to the file.
func (s *Store) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.File == "" {
		return nil
	}
	if err := s.kept.know(); err != nil {
		return fmt.Errorf("grants: %w", err)
	}
	return nil
}

// Close forgets what is in memory. The file stays.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = nil
	return nil
}

// Match says whether the grants cover an action. Every part of it, each sub-command and each path, must be covered by one
// that allows; if one that refuses covers any part, the action is refused. What cannot be understood in full, what is only
// known when it runs, and what comes with variables that are not known to be harmless is covered only by a grant of
// exactly that action; an action on acphost's own files, or a change of mode, by none.
func (s *Store) Match(a *permissionv1.Action, w Where) Result {
	s.mu.Lock()
	grants := s.inForce(w)
	s.mu.Unlock()
	if len(grants) == 0 {
		return Result{}
	}
	t := targetOf(a, w)
	if refusing := t.refusedBy(grants, w); len(refusing) > 0 {
		return Result{Verdict: Refuse, Grants: clones(refusing)}
	}
	if allowing, ok := t.allowedBy(grants, w); ok {
		return Result{Verdict: Allow, Grants: clones(allowing)}
	}
	return Result{}
}

// Add remembers grants that were given at w. It sets the id and the time of each that has none, and the end of each that
// would outlive its session. Those of turns and sessions stay in memory; all others are on the disk when it returns. All
// are added, or, with an error, none.
func (s *Store) Add(w Where, grants ...*supervisorv1.Grant) error {
	now := s.opts.Now()
	var lasting []*supervisorv1.Grant
	var memory []entry
	for _, g := range grants {
		if g.GetId() == "" {
			g.Id = strings.ToLower(rand.Text()[:idLength])
		}
		g.CreateTime = cmp.Or(g.CreateTime, timestamppb.New(now))
		brief := ofSession(g.GetScope())
		if !brief && g.ExpireTime == nil {
			g.ExpireTime = timestamppb.New(now.AddDate(0, 0, s.opts.Days))
		}
		if err := check(g); err != nil {
			return fmt.Errorf("remember an answer: %w", err)
		}
		if brief && w.Scope == "" {
			return errors.New("remember an answer: a grant for a session needs the session's scope")
		}
		if brief || s.opts.File == "" {
			memory = append(memory, entry{grant: proto.CloneOf(g), scope: w.Scope, turn: w.Turn})
		} else {
			lasting = append(lasting, g)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(lasting) > 0 {
		if err := s.kept.add(now, lasting); err != nil {
			return fmt.Errorf("remember an answer: %w", err)
		}
	}
	s.memory = append(s.memory, memory...)
	return nil
}

// Revoke forgets the grants of the ids and returns them; what was on the disk is forgotten there when it returns. If one
// of them is not known, nothing is forgotten, and the error is ErrUnknown.
func (s *Store) Revoke(ids ...string) ([]*supervisorv1.Grant, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	s.drop(func(e entry) bool { return expired(e.grant, now) })
	var revoked []*supervisorv1.Grant
	var lasting []string
	for _, id := range ids {
		i := slices.IndexFunc(s.memory, func(e entry) bool { return e.grant.GetId() == id })
		if i < 0 {
			lasting = append(lasting, id)
			continue
		}
		revoked = append(revoked, proto.CloneOf(s.memory[i].grant))
	}
	if len(lasting) > 0 {
		kept, err := s.kept.revoke(now, lasting)
		if err != nil {
			return nil, fmt.Errorf("revoke: %w", err)
		}
		revoked = append(revoked, clones(kept)...)
	}
	s.drop(func(e entry) bool { return slices.Contains(ids, e.grant.GetId()) })
	return unique(revoked), nil
}

// List returns the grants that are in force, of all sessions, oldest first.
func (s *Store) List() []*supervisorv1.Grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.opts.Now()
	s.refresh()
	list := clones(s.kept.counting)
	for _, e := range s.memory {
		list = append(list, proto.CloneOf(e.grant))
	}
	list = slices.DeleteFunc(list, func(g *supervisorv1.Grant) bool { return expired(g, now) })
	slices.SortStableFunc(list, func(a, b *supervisorv1.Grant) int {
		return a.GetCreateTime().AsTime().Compare(b.GetCreateTime().AsTime())
	})
	return list
}

// EndTurn forgets what was granted for turns of a session.
func (s *Store) EndTurn(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(e entry) bool {
		return e.scope == scope && e.grant.GetScope() == supervisorv1.GrantScope_GRANT_SCOPE_TURN
	})
}

// EndSession forgets what was granted for a session and its turns.
func (s *Store) EndSession(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(e entry) bool { return e.scope == scope && ofSession(e.grant.GetScope()) })
}

func (s *Store) drop(which func(entry) bool) { s.memory = slices.DeleteFunc(s.memory, which) }

// refresh reads the file again if it changed. One that cannot be read grants nothing.
func (s *Store) refresh() {
	if s.opts.File == "" {
		return
	}
	_ = s.kept.reload() // it said so in the log
}

// inForce returns the grants that hold at w. They must not be changed.
func (s *Store) inForce(w Where) []*supervisorv1.Grant {
	s.refresh()
	now := s.opts.Now()
	grants := slices.Clone(s.kept.counting)
	for _, e := range s.memory {
		if !(ofSession(e.grant.GetScope()) && (w.Scope == "" || e.scope != w.Scope)) &&
			!(e.grant.GetScope() == supervisorv1.GrantScope_GRANT_SCOPE_TURN && e.turn != w.Turn) {
			grants = append(grants, e.grant)
		}
	}
	return slices.DeleteFunc(grants, func(g *supervisorv1.Grant) bool { return !reaches(g, w) || expired(g, now) })
}

// reaches reports whether a grant's scope holds at w; that of a session is told by its entry.
func reaches(g *supervisorv1.Grant, w Where) bool {
	if g.GetAgent() != "" && g.GetAgent() != w.Agent {
		return false
	}
	switch g.GetScope() {
	case supervisorv1.GrantScope_GRANT_SCOPE_TURN, supervisorv1.GrantScope_GRANT_SCOPE_SESSION:
		// A session that was loaded again may have another working directory, which the answer was not given for.
		return g.GetRefuse() || g.GetWorkspace() == "" || g.GetWorkspace() == w.Workspace
	case supervisorv1.GrantScope_GRANT_SCOPE_WORKSPACE:
		return g.GetWorkspace() != "" && g.GetWorkspace() == w.Workspace
	case supervisorv1.GrantScope_GRANT_SCOPE_AGENT:
		return g.GetAgent() != ""
	case supervisorv1.GrantScope_GRANT_SCOPE_EVERYWHERE:
		return true
	}
	return false
}

func ofSession(s supervisorv1.GrantScope) bool {
	return s == supervisorv1.GrantScope_GRANT_SCOPE_TURN || s == supervisorv1.GrantScope_GRANT_SCOPE_SESSION
}

func expired(g *supervisorv1.Grant, now time.Time) bool {
	return g.GetExpireTime() != nil && !now.Before(g.GetExpireTime().AsTime())
}

func clones(grants []*supervisorv1.Grant) []*supervisorv1.Grant {
	out := make([]*supervisorv1.Grant, len(grants))
	for i, g := range grants {
		out[i] = proto.CloneOf(g)
	}
	return out
}

func unique(grants []*supervisorv1.Grant) []*supervisorv1.Grant {
	var out []*supervisorv1.Grant
	for _, g := range grants {
		if !slices.ContainsFunc(out, func(have *supervisorv1.Grant) bool { return have.GetId() == g.GetId() }) {
			out = append(out, g)
		}
	}
	return out
}
