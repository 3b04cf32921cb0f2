package containment

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/regular"
	"github.com/acphost/acphost/internal/sandbox"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

const (
	// maxSnapshots limits the repositories whose commits are known.
	maxSnapshots = 64
	// committedTime limits the search for a file's content in the commits of a repository. The process waits for it.
	committedTime = 2 * time.Second
)

// commits knows the commits that repositories had before the agent worked in them. The zero value is ready. It is safe
// for concurrent use.
type commits struct {
	// searching is held during a search, which can need some 100 MB of memory.
	searching sync.Mutex

	mu        sync.Mutex
	snapshots map[string]*git.Snapshot // by the folder of a session; nil: it has no repository that can be read
}

// SnapshotRepositories records which commits and configurations the repositories of folders have, before the agent
// works there. The first snapshot counts until the agent ends.
func (d *Decider) SnapshotRepositories(folders ...string) {
	if d.sandbox == nil {
		return
	}
	for _, folder := range folders {
		folder = paths.Real(folder)
		d.commits.snapshot(folder)
		d.configs.acceptRepository(folder)
	}
}

// snapshot takes a snapshot of the repository of a folder, unless the agent may have made commits in it: in a session
// with a folder above or below it, or in another working tree of the same repository.
func (c *commits) snapshot(folder string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for known := range c.snapshots {
		if paths.Below(known, folder) || paths.Below(folder, known) {
			return
		}
	}
	if len(c.snapshots) >= maxSnapshots {
		return
	}
	taken := git.TakeSnapshot(folder)
	for _, other := range c.snapshots {
		if taken != nil && other != nil && taken.SharesRefs(other) {
			taken = nil
		}
	}
	if c.snapshots == nil {
		c.snapshots = map[string]*git.Snapshot{}
	}
	c.snapshots[folder] = taken
}

// of returns the snapshots of the repositories in whose working trees a file lies.
func (c *commits) of(file string) (found []*git.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.snapshots {
		if s != nil && s.Contains(file) {
			found = append(found, s)
		}
	}
	return found
}

// have reports whether a file had a content in a commit.
func (c *commits) have(file string, content []byte) bool {
	until := time.Now().Add(committedTime)
	c.searching.Lock()
	defer c.searching.Unlock()
	for _, s := range c.of(file) {
		if s.Has(file, content, until) {
			return true
		}
	}
	return false
}

// isCommitted reports whether a change puts nothing new at its path (PathAccess.committed).
func (d *Decider) isCommitted(e *event) bool {
	switch {
	case e.Operation != sandbox.Write || !filepath.IsAbs(e.Path):
		return false
	case e.Leaves == sandbox.LeavesFolder:
		return true
	case e.Placed:
		return d.commits.have(e.Path, e.Content)
	case e.Leaves != sandbox.LeavesNothing || len(d.commits.of(e.Path)) == 0:
		return false
	}
	info, err := os.Lstat(e.Path)
	if err != nil || info.IsDir() { // a folder that is removed is empty
		return err == nil
	}
	content, err := regular.Read(e.Path, sandbox.MaxContent)
	return err == nil && d.commits.have(e.Path, content)
}

// decideByContent decides a change again that is not allowed, if its content can make it harmless: it puts nothing new
// at its path, or git runs nothing because of it. Most changes are allowed without this, which takes longer. For a file
// that can be staged, it decides whether the content matters: if so, staged is true.
func (d *Decider) decideByContent(
	ctx context.Context, e *event, git gitMeaning, r gate.Request, before *gate.Decision,
) (decision *gate.Decision, staged bool, err error) {
	if before.Verdict == gate.Allow || r.Action.GetCommand() != nil {
		return before, false, nil
	}
	byGit := e.Stageable && git.byContent
	byCommits := e.Stageable && filepath.Base(e.Program) == "git" && len(d.commits.of(e.Path)) > 0
	mayStage := byGit || byCommits
	if !mayStage && !d.isCommitted(e) {
		return before, false, nil
	}
	restore := assume(r.Action, e.Path, byGit)
	decision, err = d.opts.Gate.Decide(ctx, r)
	if err == nil && decision.Verdict == gate.Allow && !mayStage {
		return decision, false, nil
	}
	restore()
	return before, err == nil && decision.Verdict == gate.Allow, err
}

// assume changes the facts about a path of an action to those of a harmless content: git runs nothing because of it, or
// it is committed. restore undoes it.
func assume(a *permissionv1.Action, path string, git bool) (restore func()) {
	var undo []func()
	for _, p := range a.GetPaths() {
		if p.GetPath() != path {
			continue
		}
		state, internal, committed := p.GetGitState(), p.GetGitInternal(), p.GetCommitted()
		undo = append(undo, func() { p.GitState, p.GitInternal, p.Committed = state, internal, committed })
		if p.Committed = !git; git {
			p.GitState, p.GitInternal = true, false
		}
	}
	return func() {
		for _, f := range undo {
			f()
		}
	}
}
