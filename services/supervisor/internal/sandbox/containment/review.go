package containment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/cgroup"
	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/listeners"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

const (
	// reviewTime limits the review of a turn. The client gets the end of the turn after it.
	reviewTime = 3 * time.Second
	// maxReviewed limits the files that are remembered in a turn, and the listeners that are remembered.
	maxReviewed = 256
	// maxNamed limits the items of one kind in a review.
	maxNamed = 5
	// maxDecided limits the files of new commits that a review decides about.
	maxDecided = 200
)

// reviews holds what the reviews of the current turns need. The zero value is ready. It is safe for concurrent use.
type reviews struct {
	mu    sync.Mutex
	turns map[string]*turnReview // by session
	named map[string]bool        // the listeners that a review has named
	// refused and ended are the counts of the control group at the last review (cgroup.Reached).
	refused, ended uint64
}

// turnReview is what the review of one turn needs. The mu of reviews guards its fields.
type turnReview struct {
	repositories []*git.Snapshot // when the turn began
	files        []string        // changed files that run later
}

// BeginTurn prepares the review of a turn. It must be called before the agent gets the prompt.
func (d *Decider) BeginTurn(sessionID string) {
	if d.sandbox == nil {
		return
	}
	t := &turnReview{repositories: d.repositories(sessionID)}
	d.reviews.mu.Lock()
	defer d.reviews.mu.Unlock()
	if d.reviews.turns == nil {
		d.reviews.turns = map[string]*turnReview{}
	}
	if d.reviews.turns[sessionID] == nil { // otherwise the prompt belongs to the turn in progress
		d.reviews.turns[sessionID] = t
	}
}

// EndTurn returns a function that reviews a turn that has ended; nil: there is nothing to review. The function returns
// a text for the user, and records it; empty: there is nothing to name. It names reached limits, listeners of the
// agent's processes once, processes that the turn's commands in terminals left running, and files that run later:
// changed ones, and those that new commits change.
func (d *Decider) EndTurn(sessionID string) (review func(ctx context.Context) string) {
	d.reviews.mu.Lock()
	defer d.reviews.mu.Unlock()
	t := d.reviews.turns[sessionID]
	if t == nil {
		return nil
	}
	delete(d.reviews.turns, sessionID)
	files := t.files
	return func(ctx context.Context) string {
		ctx, cancel := context.WithTimeout(ctx, reviewTime)
		defer cancel()
		var found []string
		for _, part := range []struct {
			what  string
			items []string
		}{
			{"limits reached", d.limitsReached()},
			{"listening for connections", d.newListeners()},
			{"still running", d.leftRunning(sessionID)},
			{"changed, and run later by other programs", files},
			{"changed by new commits, and run later by other programs", d.runLaterInCommits(ctx, sessionID, t.repositories)},
		} {
			if len(part.items) > 0 {
				found = append(found, part.what+": "+listed(part.items))
			}
		}
		text := strings.Join(found, "; ")
		if text != "" && d.opts.Note != nil {
			d.opts.Note(fmt.Sprintf("agent %q, session %s, end of a turn: %s", d.opts.AgentName, sessionID, text))
		}
		return text
	}
}

// listed returns the first items as text, and the number of the others.
func listed(items []string) string {
	text := make([]string, 0, maxNamed)
	for _, item := range items[:min(maxNamed, len(items))] {
		text = append(text, safetext.Cut(safetext.Line(item), 200))
	}
	if more := len(items) - len(text); more > 0 {
		text = append(text, fmt.Sprintf("%d more", more))
	}
	return strings.Join(text, ", ")
}

// noteChange remembers an allowed change of a file that runs later: one that git runs, or one in the session's folders
// that needed an answer of the user, or a commit with this content.
func (d *Decider) noteChange(e *event, t Try) {
	if !changes(e.Operation) || e.to != nil || e.Leaves == sandbox.LeavesFolder || e.Leaves == sandbox.LeavesNothing {
		return
	}
	for _, p := range t.Action.GetPaths() {
		special := t.Decision.Tried() || p.GetCommitted()
		if p.GetPath() != e.Path || !p.GetGitInternal() && !(special && p.GetInsideRoots()) {
			continue
		}
		d.reviews.mu.Lock()
		for _, id := range e.sessions {
			if r := d.reviews.turns[id]; r != nil && len(r.files) < maxReviewed && !slices.Contains(r.files, e.Path) {
				r.files = append(r.files, e.Path)
			}
		}
		d.reviews.mu.Unlock()
	}
}

// limitsReached returns the limits of the agent's control group that were reached since the last call.
func (d *Decider) limitsReached() (found []string) {
	if d.sandbox.Group == "" {
		return nil
	}
	refused, ended := cgroup.Reached(d.sandbox.Group)
	d.reviews.mu.Lock()
	defer d.reviews.mu.Unlock()
	if n := refused - d.reviews.refused; n > 0 {
		found = append(found, fmt.Sprintf("refused starts of processes (sandbox.max_processes): %d", n))
	}
	if n := ended - d.reviews.ended; n > 0 {
		found = append(found, fmt.Sprintf("processes ended for lack of memory (sandbox.max_memory_bytes): %d", n))
	}
	d.reviews.refused, d.reviews.ended = refused, ended
	return found
}

// newListeners returns the listeners of the agent's processes that no review has named, with their programs.
func (d *Decider) newListeners() (found []string) {
	all, _ := listeners.List(d.processRoots()...)
	d.reviews.mu.Lock()
	defer d.reviews.mu.Unlock()
	if d.reviews.named == nil || len(d.reviews.named) > maxReviewed {
		d.reviews.named = map[string]bool{}
	}
	for _, l := range all {
		text := fmt.Sprintf("%s (%s)", l.Address, programOf(l.PID))
		if !d.reviews.named[text] {
			d.reviews.named[text] = true
			found = append(found, text)
		}
	}
	return found
}

// leftRunning returns the processes that run in sandboxes of commands that were started in a session since the last
// call.
func (d *Decider) leftRunning(sessionID string) (found []string) {
	for _, root := range d.roots.takeNew(sessionID) {
		pids, _ := proc.Descendants(root)
		for _, pid := range pids {
			found = append(found, fmt.Sprintf("%s (process %d)", programOf(pid), pid))
		}
	}
	return found
}

// programOf returns the name of a process's program.
func programOf(pid int) string {
	if file, err := proc.Executable(pid); err == nil {
		return filepath.Base(file)
	}
	return "unknown program"
}

// repositories returns snapshots of the repositories of a session's folders.
func (d *Decider) repositories(sessionID string) (found []*git.Snapshot) {
	cc, err := d.opts.Sessions.Context(sessionID)
	if err != nil {
		return nil
	}
	for _, root := range cc.GetRoots() {
		if s := git.TakeSnapshot(paths.Real(root.GetPath())); s != nil {
			found = append(found, s)
		}
	}
	return found
}

// runLaterInCommits returns the files that new commits change and that the policy does not let processes change without
// an answer. before are the repositories at the beginning of the turn.
func (d *Decider) runLaterInCommits(ctx context.Context, sessionID string, before []*git.Snapshot) (found []string) {
	deadline, _ := ctx.Deadline()
	for _, now := range d.repositories(sessionID) {
		i := slices.IndexFunc(before, now.SharesRefs)
		if i < 0 {
			continue
		}
		files := now.ChangedSince(before[i], deadline)
		// A policy that asks about every file distinguishes none.
		if len(files) == 0 || d.asksAboutChange(ctx, sessionID, filepath.Join(now.Top(), "ordinary-file.txt")) {
			continue
		}
		for _, file := range files[:min(maxDecided, len(files))] {
			if ctx.Err() == nil && d.asksAboutChange(ctx, sessionID, file) {
				found = append(found, file)
			}
		}
	}
	return found
}

// asksAboutChange reports whether the policy does not allow a change of a file. The decision is not recorded.
func (d *Decider) asksAboutChange(ctx context.Context, sessionID, file string) bool {
	e := &event{sessions: []string{sessionID}}
	e.Operation, e.Path = sandbox.Write, file
	t, err := d.decideEvent(ctx, e, sessionID, nil)
	return err == nil && t.Decision.Verdict != gate.Allow
}
