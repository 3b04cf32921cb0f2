package gate

import (
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
)

// Surface is what a program shows of a permission request before a person answers it.
type Surface = supervisorv1.Surface

// The surfaces that show more than the agent's words. Every other surface, an unknown one too, shows only these.
const (
	// SurfaceInput is a surface of acphost: chat, prompt, approvals, the console.
	SurfaceInput = supervisorv1.Surface_SURFACE_INPUT
)

// showsInput reports whether people read on a surface what the agent's input says, and not only the agent's words about it.
func showsInput(s Surface) bool { return s == SurfaceInput }

// Seen is what the agent's own words in a question show: its title, its texts and its diffs.
type Seen struct {
	// Edits is what the question's diffs make of files (intent.Session.Shown).
	Edits intent.Edits
	// Command: the words show all of the command (intent.ShowsCommand).
	Command bool
	// Files are the files that the words name (intent.ShownFiles), each by intent.PlaceOf.
	Files map[string]bool
}

// covers reports whether somebody who answered a question on a surface has read what an action is: its command, or each of
// its files. An answer to a question of the agent's opens later calls, and makes grants, only of actions that it covers:
// this function is the only one that decides that.
func (s Seen) covers(on Surface, a *permissionv1.Action) bool {
	switch {
	case showsInput(on):
		return true
	case a.GetCommand() != nil:
		return s.Command
	}
	return !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
		place := intent.PlaceOf(p)
		_, edited := s.Edits[place]
		return !edited && !s.Files[place]
	})
}

// diffs reports whether diffs showed every file of an action.
func (s Seen) diffs(a *permissionv1.Action) bool {
	return !slices.ContainsFunc(a.GetPaths(), func(p *permissionv1.PathAccess) bool {
		_, shown := s.Edits[intent.PlaceOf(p)]
		return !shown
	})
}
