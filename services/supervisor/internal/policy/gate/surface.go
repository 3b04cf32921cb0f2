package gate

import (
	"slices"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Surface says how much of a permission request a program shows to the person who answers it.
type Surface = supervisorv1.Surface

// The surfaces that show more than the agent's words. All others, including unknown ones, show only the agent's words.
const (
	// SurfaceInput is a surface of acphost: chat, prompt, approvals, the console.
	SurfaceInput = supervisorv1.Surface_SURFACE_INPUT
)

// showsInput reports whether a surface shows the agent's input itself, and not only the agent's words about it.
func showsInput(s Surface) bool { return s == SurfaceInput }

// Seen is the content of the agent's own words in a question: its title, its texts and its diffs.
type Seen struct {
	// Edits are the changes to files that the question's diffs show (intent.Session.Shown).
	Edits intent.Edits
	// Command: the words show the whole command (intent.ShowsCommand).
	Command bool
	// Files are the files that the words name (intent.ShownFiles), each by intent.PlaceOf.
	Files map[string]bool
}

// covers reports whether a person who answered a question on a surface has read the content of an action: its command, or each of its
// files. An answer to an agent's question allows later calls, and makes grants, only for actions that it covers. No other function decides
// that.
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
