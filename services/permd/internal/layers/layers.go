// Package layers determines which rule files apply: the administrator's, the user's, and those of workspaces. It reads
// them, notices changes, and decides by all of them together.
//
// A change applies at once if it is stricter, and after a user reloads the rules if it is looser. The package does not
// compare rules for this: until the user reloads, the old rules apply beside the new ones, and the stricter verdict
// wins. A file that cannot be used changes nothing; the package reports it once.
//
// The package knows files and policies; it must not know how decisions are transported.
package layers

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
	"github.com/acphost/acphost/services/permd/internal/ready"
)

// Built-in rules of this package.
const (
	// RuleUnreadable asks about everything in a workspace whose rule file cannot be used.
	RuleUnreadable = "acphost/workspace-policy-unreadable"
	// RuleReload asks about everything once a file has changed too often to keep all its versions.
	RuleReload = "acphost/reload-needed"
)

// maxWorkspaces limits the workspaces whose rule files are cached. The oldest is evicted first.
const maxWorkspaces = 1024

// Files are the rule files in force. Safe for concurrent use.
type Files struct {
	env       policy.Surroundings
	log       *slog.Logger
	workspace string            // the relative path of workspaces' rule files; empty: they are not used
	trusted   map[string]string // real path to SHA-256

	mu         sync.Mutex // guards the fields below, and every source
	fixed      []*source  // the administrator's and the user's
	workspaces map[string]*source
	order      []string // of workspaces, oldest first
	size       int      // of all versions kept, in bytes
	state      []byte   // the last result of State; nil: it has changed since
	digest     []byte   // of state
}

// Load reads the files in the settings. If an existing file cannot be used, the error contains every mistake in it.
// accepted is a State of the files that were in force until permd ended unexpectedly: those versions then apply, and
// the current content only where it is stricter. Nil: the current content applies.
func Load(settings *permissionv1.Settings, accepted []byte, env policy.Surroundings, log *slog.Logger) (*Files, error) {
	f := &Files{env: env, log: log, workspace: settings.GetWorkspacePolicy(), workspaces: map[string]*source{}}
	if f.workspace != "" && !filepath.IsLocal(f.workspace) {
		return nil, fmt.Errorf("workspace_policy: expected a relative path that stays below, got %q", f.workspace)
	}
	earlier, err := decodeState(accepted)
	if err != nil {
		return nil, err
	}
	var errs []error
	if path := settings.GetAdminPolicy(); path != "" {
		s := &source{path: path, name: path, layer: permissionv1.Layer_LAYER_ADMIN, optional: true}
		errs = append(errs, f.loadFixed("admin_policy", s, earlier))
	}
	if name := settings.GetPolicy(); name != "" {
		s := &source{path: name, name: name, layer: permissionv1.Layer_LAYER_USER}
		if content, found := ready.Get(name); found {
			p, err := policy.Parse("policy "+name, content, env)
			if err != nil {
				return nil, fmt.Errorf("policy: %w", err)
			}
			s.path = ""
			s.versions = append(s.versions, version{policy: p, layer: s.layer})
			f.fixed = append(f.fixed, s)
		} else {
			errs = append(errs, f.loadFixed("policy", s, earlier))
		}
	}
	if earlier != nil {
		f.trusted = earlier.GetTrusted()
		errs = append(errs, f.restoreWorkspaces(earlier))
	} else if f.trusted, err = readTrust(settings.GetTrust()); err != nil {
		errs = append(errs, fmt.Errorf("trust: %w", err))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return f, nil
}

// loadFixed reads a file for the first time, or restores its earlier versions.
func (f *Files) loadFixed(field string, s *source, earlier *permissionv1.Belief) error {
	if !filepath.IsAbs(s.path) {
		return fmt.Errorf("%s: %q is neither an absolute path nor the name of a ready policy", field, s.path)
	}
	load := s.load
	if file := removeEntry(earlier, s); file != nil {
		load = func(env policy.Surroundings) error { return s.restore(file, env) }
	}
	if err := load(f.env); err != nil {
		return fmt.Errorf("%s: %w", field, err)
	}
	f.fixed = append(f.fixed, s)
	f.size += s.size()
	return nil
}

// Notes describes the rules in force, one line each.
func (f *Files) Notes() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var notes []string
	for _, s := range f.fixed {
		if p := s.versions[0].policy; p != nil {
			notes = append(notes, fmt.Sprintf("rules in force: %d, from %s", p.Rules(), s.name))
		}
	}
	if len(notes) == 0 {
		notes = append(notes, "no policy is set: every question is asked, calls pass")
	}
	if f.workspace != "" {
		notes = append(notes, fmt.Sprintf("a workspace's own %s may tighten; trusted: %d", f.workspace, len(f.trusted)))
	}
	return notes
}

// Decide decides on an action by all files that apply to it.
func (f *Files) Decide(a *permissionv1.Action) *permissionv1.DecideResponse {
	sets, doubt := f.sets(a)
	return decide(sets, doubt, a)
}

func decide(sets [][]policy.Part, doubt *permissionv1.DecideResponse, a *permissionv1.Action) *permissionv1.DecideResponse {
	var strictest *permissionv1.DecideResponse
	for _, parts := range sets {
		strictest = policy.Stricter(strictest, policy.Decide(parts, a))
	}
	return policy.Stricter(strictest, doubt)
}

// Explain shows, rule by rule, the reasons for the verdict of Decide, with the files as they were loaded. It omits
// later versions; if one of them makes the verdict stricter, the decision reports that.
func (f *Files) Explain(a *permissionv1.Action) *permissionv1.ExplainResponse {
	sets, _ := f.sets(a)
	res := policy.Explain(sets[0], a)
	res.Decision = f.Decide(a)
	return res
}

// sets returns the sets of rule files to decide by: the files in force, and for each later version of a file the same
// set with that version. doubt is the verdict for files that cannot be read; nil if there are none.
func (f *Files) sets(a *permissionv1.Action) (sets [][]policy.Part, doubt *permissionv1.DecideResponse) {
	f.mu.Lock()
	defer f.mu.Unlock()
	sources := f.fixed
	for _, s := range f.fixed {
		f.refresh(s)
	}
	if f.workspace != "" {
		sources = append(sources[:len(sources):len(sources)], f.workspacesOf(a)...)
	}
	base := make([]policy.Part, 0, len(sources)+1)
	indexes := make([]int, len(sources)) // the index of each source in base; -1: none
	for i, s := range sources {
		indexes[i] = -1
		if s.unreadable && len(s.versions) == 0 {
			doubt = policy.Stricter(doubt, askResponse(RuleUnreadable, fmt.Sprintf("the workspace's rule file %s cannot be used; its rules are unknown", s.name)))
		}
		if s.overflow {
			doubt = policy.Stricter(doubt, askResponse(RuleReload, fmt.Sprintf("%s has changed too often: reload the policy", s.name)))
		}
		if len(s.versions) > 0 && s.versions[0].policy != nil {
			indexes[i] = len(base)
			base = append(base, s.part(0))
		}
	}
	if len(base) == 0 {
		none, err := policy.None(f.env)
		if err != nil {
			return [][]policy.Part{nil}, askResponse(RuleUnreadable, err.Error())
		}
		base = append(base, policy.Part{Policy: none, Layer: permissionv1.Layer_LAYER_USER})
	}
	sets = append(sets, base)
	for i, s := range sources {
		for v := 1; v < len(s.versions); v++ {
			changed := append([]policy.Part(nil), base...)
			if indexes[i] >= 0 {
				changed[indexes[i]] = s.part(v)
			} else {
				changed = append(changed, s.part(v))
			}
			sets = append(sets, changed)
		}
	}
	return sets, doubt
}

// workspacesOf returns the current rule files of the action's workspaces.
func (f *Files) workspacesOf(a *permissionv1.Action) []*source {
	var found []*source
	for _, path := range f.workspaceFiles(a) {
		s := f.workspaces[path]
		if s == nil {
			s = f.workspaceSource(path)
			f.cacheSource(path, s)
		}
		f.refresh(s)
		found = append(found, s)
	}
	return found
}

// workspaceFiles returns the paths of the rule files of the action's workspaces.
func (f *Files) workspaceFiles(a *permissionv1.Action) []string {
	var found []string
	for i, root := range a.GetRoots() {
		if real := a.GetResolvedRoots(); i < len(real) && real[i] != "" {
			root = real[i]
		}
		if filepath.IsAbs(root) {
			found = append(found, filepath.Join(root, f.workspace))
		}
	}
	return found
}

// workspaceSource returns the source for a workspace's rule file.
func (f *Files) workspaceSource(path string) *source {
	return &source{path: path, name: path, layer: permissionv1.Layer_LAYER_WORKSPACE, optional: true, fromWorkspace: true, trusted: f.trusted}
}

// refresh checks a file for changes.
func (f *Files) refresh(s *source) {
	before := s.size()
	if s.refresh(f.env, maxKept-f.size, f.log) {
		f.size += s.size() - before
		f.state = nil
	}
}

func (f *Files) cacheSource(path string, s *source) {
	if len(f.order) >= maxWorkspaces {
		f.size -= f.workspaces[f.order[0]].size()
		f.state = nil
		delete(f.workspaces, f.order[0])
		f.order = f.order[1:]
	}
	f.workspaces[path] = s
	f.order = append(f.order, path)
}

func askResponse(rule, reason string) *permissionv1.DecideResponse {
	return &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK, Rule: rule, Reason: reason}
}
