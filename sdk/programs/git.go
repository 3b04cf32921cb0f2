package programs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/shell"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

// git adds to out the repository that a git command works on, and whether it may run a program of the workspace that is
// found by its name.
func (s *Resolver) git(c *acpv1.SimpleCommand, out *acpv1.Found) {
	command := shell.GitCommand(c.GetArgv())
	out.Repository = s.repository(c, command, out.Program)
	if out.Repository.GetDoubt() == "" {
		out.Repository.Doubt = s.gitFinds(command, c.GetCwd(), out.Program.GetPath())
	}
}

// gitFinds returns the name of a program that git may run, that it finds by name, and that is not the system's: the
// command itself if it is not part of git, or a program to which it delegates a part of the work. Empty: none. program
// is git's own file.
func (s *Resolver) gitFinds(command, cwd, program string) string {
	if v, ok := git.VersionOf(program); ok && s.Quiet && !v.TakesSettings() {
		return fmt.Sprintf("git %d.%d runs what a repository names, and takes no settings from the environment against that: 2.31 does",
			v.Major, v.Minor)
	}
	workspace := s.workspacePATH()
	var user git.User
	if len(workspace) > 0 || git.KindOf(command) == git.Foreign {
		user = git.ReadUser(s.userConfigs(false), s.Quiet)
	}
	if command != "" {
		file, kind := s.Find("git-"+command, cwd), git.KindOf(command)
		switch {
		case file != "" && (s.inWorkspace(file) || kind == git.Foreign && s.isScript(file) && len(workspace) > 0):
			return fmt.Sprintf("git %s may be %s, of the workspace", command, file)
		case kind == git.Script && len(workspace) > 0:
			return scriptDoubt(s.workspaceFolder())
		case kind == git.Foreign && file == "" && !slices.Contains(user.Aliases, command):
			return fmt.Sprintf("git has no command %q, and there is no program git-%s", command, command)
		}
	}
	for _, dir := range workspace {
		dir = absolute(dir, cwd)
		entries, err := os.ReadDir(dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) { // programs are also found in a folder that cannot be listed
			return "git may run a program in " + dir + ", of the workspace, which cannot be read"
		}
		for _, e := range entries {
			name := e.Name()
			if git.Finds(name, s.Quiet) || slices.Contains(user.Programs, name) {
				if file := executable(s.Seen, filepath.Join(dir, name)); file != "" {
					return "git may run " + file + ", of the workspace"
				}
			}
		}
	}
	return ""
}

// inWorkspace reports whether a path is in the workspace, or leads through it.
func (s *Resolver) inWorkspace(file string) bool {
	_, passed := s.followLinks(file)
	return slices.ContainsFunc(passed, s.inside)
}

func (s *Resolver) isScript(file string) bool {
	_, ok := interpreterOf(file)
	return ok
}

// gitEnvVariables are the variables that make git work elsewhere, or replace its own programs.
var gitEnvVariables = []string{"GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY",
	"GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_EXEC_PATH", "GIT_NAMESPACE", "GIT_EXTERNAL_DIFF", "GIT_CONFIG_PARAMETERS", "GIT_CONFIG"}

func (s *Resolver) repository(c *acpv1.SimpleCommand, command string, program *acpv1.Program) *acpv1.Repository {
	if !filepath.IsAbs(c.GetCwd()) {
		return &acpv1.Repository{Doubt: "the directory that git runs in is not known"}
	}
	if s.Environ == nil {
		return &acpv1.Repository{Doubt: "the environment that git gets is not known"}
	}
	for _, name := range gitEnvVariables {
		if quiet := s.Quiet && (name == "GIT_EXTERNAL_DIFF" || name == "GIT_CONFIG_PARAMETERS"); !quiet && s.variable(name) != "" {
			return &acpv1.Repository{Doubt: name + " is set, so that git may work elsewhere or run something else"}
		}
	}
	dir, ok := s.Seen.Existing(c.GetCwd())
	if !ok {
		return &acpv1.Repository{Doubt: "the directory that git runs in cannot be read"}
	}
	found, looks := git.Find(dir), shell.Risky(c.GetArgv()) == ""
	r := &acpv1.Repository{GitDir: found.Dir, AtRoot: found.Plain && slices.Contains(s.roots, found.Top) || looks && s.isRootRepository(found, dir, c.GetArgv())}
	if !r.AtRoot {
		return r
	}
	use := git.Use{Quiet: s.Quiet, Config: s.userConfigs(true), Command: command, Looks: looks,
		SystemPath: s.variable("PATH") != "" && s.workspaceFolder() == ""}
	if v, ok := git.VersionOf(program.GetPath()); !ok || !v.TakesSettings() {
		use.Quiet = false // it is unknown whether git would respect it
	}
	r.Suspects, r.Quieted = git.Inspect(found, use)
	return r
}

// isRootRepository reports whether a read-only command may work on a repository that is not stored in a root: a root is
// its linked worktree or submodule, or a root is a folder of it and the command runs there. If the repository is larger
// than the root, the command must show only files of the root, or accept a pathspec that limits it to them.
func (s *Resolver) isRootRepository(found git.Found, dir string, argv []string) bool {
	if !found.Plain && !found.Linked {
		return false
	}
	return slices.ContainsFunc(s.roots, func(root string) bool {
		return root == found.Top || paths.Below(found.Top, root) && paths.Below(root, dir) && git.CanNarrow(argv)
	})
}

// userConfigs returns the user's configuration files of git: those that the agent may write, or the others.
func (s *Resolver) userConfigs(inside bool) []string {
	home := s.variable("HOME")
	xdg := s.variable("XDG_CONFIG_HOME")
	if xdg == "" && home != "" {
		xdg = filepath.Join(home, ".config")
	}
	var files []string
	for _, file := range []string{s.variable("GIT_CONFIG_GLOBAL"), s.variable("GIT_CONFIG_SYSTEM"), "/etc/gitconfig",
		filepath.Join(home, ".gitconfig"), filepath.Join(xdg, "git", "config")} {
		if filepath.IsAbs(file) && s.inWorkspace(file) == inside {
			files = append(files, file)
		}
	}
	return files
}
