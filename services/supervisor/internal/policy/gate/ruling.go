package gate

import (
	"slices"

	"github.com/acphost/acphost/internal/reason"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
)

// Ruling is acphost's own decision about an action, which overrides policies.
type Ruling struct {
	Verdict permissionv1.Verdict
	Rule    string
	Reason  string
}

// Ahead returns the ruling on an action before policies are asked; nil: policies are asked.
func Ahead(a *permissionv1.Action) *Ruling {
	if r := refused(a); r != nil {
		return r
	}
	if a.GetKind() == "tool.switch_mode" {
		return &Ruling{Ask, RuleMode, reason.ModeChange.String()}
	}
	return nil
}

// refused returns the ruling on actions that no agent may perform, with or without a policy; nil: the action is not among these.
func refused(a *permissionv1.Action) *Ruling {
	if p := protectedIn(a); p != "" {
		return &Ruling{Deny, RuleProtected, aboutPath(a, p, reason.ProtectedFile)}
	}
	if a.GetDoor() == permissionv1.Door_DOOR_KERNEL {
		return nil // rules for processes may decide about git's own files: see gitUndecided
	}
	return gitRefused(a)
}

// gitRefused returns the ruling on an action that changes what git runs; nil: it does not.
func gitRefused(a *permissionv1.Action) *Ruling {
	if p := gitIn(a); p != "" {
		return &Ruling{Deny, RuleGit, aboutPath(a, p, reason.GitRuns)}
	}
	return nil
}

// gitUndecided returns the ruling on a process action that changes what git runs, if no rules for processes decide about it; nil: policies
// decide.
func gitUndecided(a *permissionv1.Action, processes bool) *Ruling {
	if processes || a.GetDoor() != permissionv1.Door_DOOR_KERNEL {
		return nil
	}
	return gitRefused(a)
}

// ProcessBehind returns the ruling on a process action of the agent itself after a policy has decided; nil: the verdict
// applies. It does not know the agent's own files.
func ProcessBehind(a *permissionv1.Action, said *permissionv1.DecideResponse) *Ruling {
	if own := gitUndecided(a, said.GetProcesses()); own != nil && said.GetVerdict() != Deny {
		return own
	}
	switch {
	case a.GetDoor() != permissionv1.Door_DOOR_KERNEL || said.GetVerdict() != Ask:
	case isStart(a) && said.GetRule() == "":
		return &Ruling{Verdict: Allow, Reason: reason.StartByEffects.String()}
	case said.GetProcesses():
	case a.GetKind() == "fs.read":
		return &Ruling{Verdict: Allow, Reason: reason.ReadsByDenyOnly.String()}
	case isSocket(a) && !said.GetNamesPaths():
		return &Ruling{Verdict: Allow, Reason: reason.SocketNotNamed.String()}
	}
	return nil
}

// isSocket reports whether an action connects to a unix socket.
func isSocket(a *permissionv1.Action) bool {
	return a.GetKind() == "net.connect" && a.GetEndpoint() == nil
}

// Behind returns the ruling on an action that a policy allows; nil: it is allowed. A person is asked about a command that may name a key
// file, if that is not certain and the file's opening is not decided.
func (g *Gate) Behind(a *permissionv1.Action) *Ruling {
	if a.GetCommand() == nil || isStart(a) || len(g.keyFiles()) == 0 || slices.Contains(a.GetWalls(), permissionv1.Wall_WALL_READS) {
		return nil
	}
	_, unclear, at := g.By(nil).keysOf(a.GetCommand(), rootsOf(a))
	if !unclear {
		return nil
	}
	why := reason.KeyPossible.String()
	if at >= 0 {
		if part := shell.Part(a.GetCommand().GetSubCommands(), at, intent.Excerpt); part != "" {
			why = part + ": " + why
		}
	}
	return &Ruling{Ask, RuleUnclear, why}
}

// aboutPath returns a reason about a path of an action. It names the path unless the action has no other.
func aboutPath(a *permissionv1.Action, path string, why reason.Reason) string {
	if a.GetCommand() == nil && len(a.GetPaths()) == 1 {
		return why.String()
	}
	return intent.Excerpt(path) + ": " + why.String()
}

// Mark adds the protected path that an action's command names to the action.
func (g *Gate) Mark(a *permissionv1.Action) { g.By(nil).Mark(a) }

// Mark implements Gate.Mark.
func (g Sight) Mark(a *permissionv1.Action) {
	if p := g.ProtectedCommand(a.GetCommand(), rootsOf(a)); p != "" {
		a.Paths = append(a.Paths, &permissionv1.PathAccess{Path: p, Access: permissionv1.Access_ACCESS_WRITE, Protected: true})
	}
}

// rootsOf returns the roots of an action in each of their spellings.
func rootsOf(a *permissionv1.Action) []string {
	return slices.Concat(a.GetRoots(), a.GetResolvedRoots())
}
