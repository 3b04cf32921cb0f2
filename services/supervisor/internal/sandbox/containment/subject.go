package containment

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/internal/git"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// subject returns the path that the user is asked about if no rule matches a change outside of the session's roots. A
// name that differs from one try to the next, or that a program uses only on the way, says nothing to a person, and an
// answer about it would not be used again:
//
//   - git's bookkeeping in a repository outside: the folder of the repository;
//   - a lock of git's beside a file: the file.
//
// It returns "" if the path itself is the subject.
func (e *event) subject(state bool) string {
	if state {
		return git.FolderOf(e.Path)
	}
	file, isLock := strings.CutSuffix(e.Path, ".lock")
	if !isLock || filepath.Base(e.Program) != "git" {
		return ""
	}
	if info, err := os.Lstat(file); err == nil && info.Mode().IsRegular() {
		return file
	}
	return ""
}

// decideSubject decides about the subject of a change instead, if no rule matches the change itself. An answer about
// the subject covers the change; a rule about it does not.
func (d *Decider) decideSubject(
	ctx context.Context, e *event, s intent.Session, r gate.Request, before *gate.Decision, state bool,
) (*gate.Decision, *permissionv1.Action, error) {
	paths := r.Action.GetPaths()
	if before.Verdict != gate.Ask || before.Rule != "" || len(paths) != 1 || paths[0].GetInsideRoots() {
		return before, r.Action, nil
	}
	subject := e.subject(state)
	if subject == "" || subject == e.Path {
		return before, r.Action, nil
	}
	a := intent.ChangedFile(s, subject, permissionv1.Access_ACCESS_WRITE)
	a.Title = r.Action.GetTitle()
	for _, p := range a.GetPaths() {
		p.GitState = state
		p.GitInternal = p.GetGitInternal() && !state
	}
	of := d.link.Request(r.Action.GetSessionId(), a, e.seen)
	of.GivenUp = r.GivenUp
	decision, err := d.opts.Gate.Decide(ctx, of)
	if err != nil || decision.Verdict == gate.Allow && !decision.Settled() {
		return before, r.Action, err
	}
	return decision, a, nil
}
