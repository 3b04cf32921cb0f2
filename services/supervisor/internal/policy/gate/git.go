package gate

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// GitInternal reports whether a path, by its name or with links resolved, is internal to git: named ".git", below such a folder, or in a
// folder that git takes for a repository, or would take for one once the file is written. Git runs programs that are configured there.
// resolved may be empty. The handler that opens the path checks again.
func GitInternal(path, resolved string) bool {
	if git.Own(path) || git.Own(resolved) {
		return true
	}
	if resolved == "" {
		resolved = path
	}
	return git.Completes(path) || resolved != path && git.Completes(resolved)
}

// gitIn returns the first git-internal path that an action writes to; "": none. Commands are not known to write; policies and people decide
// about them.
func gitIn(a *permissionv1.Action) string {
	if !slices.Contains([]string{"fs.write", "tool.edit", "tool.delete", "tool.move"}, a.GetKind()) || a.GetCommand() != nil {
		return ""
	}
	for _, p := range a.GetPaths() {
		if p.GetGitInternal() && p.GetAccess() != permissionv1.Access_ACCESS_READ {
			return p.GetPath()
		}
	}
	return ""
}

// runsProject reports whether a command runs the project's own code, and no git beside it. Such code could do everything that git could be
// made to do, and its tests of git, hooks and settings need git unchanged.
func runsProject(a *permissionv1.Action) bool {
	c, runs := a.GetCommand(), false
	if a.GetUnparsed() != "" || c.GetUnparsed() != "" {
		return false
	}
	for _, sub := range c.GetSubCommands() {
		argv := sub.GetArgv()
		switch _, reads := shell.Generalisable(argv); {
		case shell.DynamicWord(sub, 0):
			return false // the program is only known when it runs
		case shell.RunsProject(argv):
			runs = true
		case len(argv) == 0 || changesDirectory(argv[0]):
		case !reads || strings.EqualFold(filepath.Base(argv[0]), "git"):
			return false
		}
	}
	return runs
}
