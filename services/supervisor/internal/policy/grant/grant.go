// Package grant stores answers of the user, so that the user is not asked the same question again. A grant covers one
// simple command, one path, or one action in exactly its form. An action is covered if each part of it is covered.
//
// Grants of a turn or a session are kept in memory. All others are kept in a file that several supervisors share: if
// one of them revokes a grant, it ends for all at once; if one adds a grant, the others use it after a Reload.
//
// The package knows actions and grants. It must not know policies or questions: the gate decides whether a grant may
// replace an answer. A grant that allows never covers an action that the package cannot parse. A grant that refuses
// covers even such an action.
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

// DefaultDays is the lifetime in days of a grant that outlives its session.
const DefaultDays = 90

// idLength is the length of new ids: 60 random bits.
const idLength = 12

// ErrUnknown means that there is no grant with an id.
var ErrUnknown = errors.New("no such grant")

// Options configure a Store.
type Options struct {
	// File is the absolute path of the file for grants that outlive their session. Empty means that they end with the
	// Store.
	File string
	// Now returns the time. Nil means time.Now.
	Now func() time.Time
	// Days is the lifetime of a grant that outlives its session and has no end of its own. 0 means DefaultDays.
	Days int
	// Logger receives warnings about unreadable lines in the file. Nil discards them.
	Logger *slog.Logger
}

// Where is the context in which an action is matched with grants.
type Where struct {
	// Scope identifies the session. Empty means that there is no session; grants of sessions never match then.
	Scope string
	// SessionID is the session id of ACP, for display.
	SessionID string
	// Agent is the agent's configured name.
	Agent string
	// Workspace is the session's working directory, resolved. Empty means that it is unknown; commands are then covered
	// only in exactly their form.
	Workspace string
	// Turn is the number of the turn within the session.
	Turn uint64
}

// Verdict is the result of matching an action with the grants.
type Verdict int

const (
	// None means that the grants do not cover the action.
	None Verdict = iota
	// Allow means that grants that allow cover every part of the action.
	Allow
	// Refuse means that a grant refuses the action or a part of it.
	Refuse
)

// String returns the name of the verdict.
func (v Verdict) String() string {
	return [...]string{None: "none", Allow: "allow", Refuse: "refuse"}[v]
}

// Result is a verdict with its grants.
type Result struct {
	Verdict Verdict
	// Grants are the grants that cause the verdict, each once.
	Grants []*supervisorv1.Grant
}

// Store holds grants. It is safe for concurrent use, and several processes may use its file at once.
type Store struct {
	opts Options

	mu     sync.Mutex
	memory []entry // grants of turns and sessions; without a file, all grants
	kept   file
}

// entry is a grant with the data that only this process has.
type entry struct {
	grant *supervisorv1.Grant
	scope string
	turn  uint64
}

// Open returns a Store with the grants in its file, which need not exist. It returns an error if another user could
// have written the file: the file or its folder is writable by others, or belongs to another user.
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

// Reload makes all grants in the file effective. Before a Reload, revocations and refusals of other processes are
// effective at once, and their grants that allow are not. It must be called only on a user's order, because agents of
// the same user can write to the file.
func (s *Store) Reload() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.opts.File == "" {
		return nil
	}
	if err := s.kept.markAllKnown(); err != nil {
		return fmt.Errorf("grants: %w", err)
	}
	return nil
}

// Close discards the grants in memory. The file remains.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.memory = nil
	return nil
}

// Match matches an action with the grants. Grants that allow must cover every part of it, each sub-command and each
// path. If a grant that refuses covers any part, the action is refused. Only a grant of exactly this action covers an
// action that cannot be parsed in full, that depends on facts at run time, or that sets variables that are not known to
// be harmless. No grant covers an action on acphost's own files, or a change of mode.
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

// Add stores grants that were given at w. It sets missing ids and times, and the end of each grant that would outlive
// its session. Grants of turns and sessions stay in memory. All others are on disk when Add returns. After an error, no
// grant is added.
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

// Revoke removes the grants with the ids and returns them. When it returns, they are also removed from the file. If an
// id is unknown, it removes none, and the error is ErrUnknown.
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

// List returns the effective grants of all sessions, oldest first.
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

// EndTurn removes the grants for turns of a session.
func (s *Store) EndTurn(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(e entry) bool {
		return e.scope == scope && e.grant.GetScope() == supervisorv1.GrantScope_GRANT_SCOPE_TURN
	})
}

// EndSession removes the grants for a session and its turns.
func (s *Store) EndSession(scope string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(func(e entry) bool { return e.scope == scope && ofSession(e.grant.GetScope()) })
}

func (s *Store) drop(which func(entry) bool) { s.memory = slices.DeleteFunc(s.memory, which) }

// refresh reads the file again if it has changed. An unreadable file contains no grants.
func (s *Store) refresh() {
	if s.opts.File == "" {
		return
	}
	_ = s.kept.reload() // reload logs the error
}

// inForce returns the grants that are effective at w. They must not be modified.
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

// reaches reports whether the scope of a grant includes w. The entry of a grant identifies its session.
func reaches(g *supervisorv1.Grant, w Where) bool {
	if g.GetAgent() != "" && g.GetAgent() != w.Agent {
		return false
	}
	switch g.GetScope() {
	case supervisorv1.GrantScope_GRANT_SCOPE_TURN, supervisorv1.GrantScope_GRANT_SCOPE_SESSION:
		// A session that was loaded again may have another working directory, for which the answer was not given.
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
