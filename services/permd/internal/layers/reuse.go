package layers

import (
	"path/filepath"

	"github.com/acphost/acphost/internal/reuse"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"

	"github.com/acphost/acphost/services/permd/internal/policy"
)

// maxStates is the contract's limit of file states in an answer.
const maxStates = 16

// DecideToReuse is Decide, and also returns for which further actions the decision holds, if any.
//
// It holds while a decision would find the rule files unchanged: the returned states are read before the files are
// checked. If a file has changed since it was loaded, or cannot be used, the decision holds only for its action.
func (f *Files) DecideToReuse(a *permissionv1.Action) *permissionv1.DecideResponse {
	states, known := f.states(a)
	sets, doubt := f.sets(a)
	d := decide(sets, doubt, a)
	if known && len(sets) == 1 && doubt == nil && f.readable(a) {
		d.Reuse = policy.Reusable(sets[0], a, d)
	}
	if d.Reuse != nil {
		d.Reuse.View, d.Reuse.Files = reuse.View(), states
	}
	return d
}

// states returns the states of all files that apply to an action. known is false if the state of a file does not show
// changes, or if there are too many files.
func (f *Files) states(a *permissionv1.Action) (states []*permissionv1.FileState, known bool) {
	known = true
	add := func(path string, follow bool) {
		if !known || len(states) >= maxStates {
			known = false
			return
		}
		var fileStat *permissionv1.FileState
		if fileStat, known = reuse.Of(path, follow); known {
			states = append(states, fileStat)
		}
	}
	if _, plain := reuse.Name(a); !plain && !reuse.IsProcessRead(a) || reuse.View() == "" {
		return nil, false
	}
	for _, s := range f.fixed {
		if s.path != "" {
			add(s.path, true)
		}
	}
	if f.workspace != "" {
		for _, path := range f.workspaceFiles(a) { // neither it nor its folder may be a link
			add(filepath.Dir(path), false)
			add(path, false)
		}
	}
	return states, known
}

// readable reports whether every file that applies to an action was usable when it was last checked.
func (f *Files) readable(a *permissionv1.Action) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	usable := func(s *source) bool { return s == nil || !s.unreadable && !s.overflow }
	for _, s := range f.fixed {
		if !usable(s) {
			return false
		}
	}
	for _, path := range f.workspaceFiles(a) {
		if !usable(f.workspaces[path]) {
			return false
		}
	}
	return true
}
