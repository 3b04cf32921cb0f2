// Package programs resolves simple commands on this machine: the program that a name refers to, whether the agent may
// write the program, and the repository that git finds. It is for programs that run commands, and for programs that
// decide about commands that others run on this machine.
//
// The package reads files and an environment, and runs nothing. Its results can be out of date at once: to run a
// command, execute exactly the file that was found.
package programs

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

// MaxCommands limits the resolved simple commands of one line.
const MaxCommands = 1000

// Resolver resolves the commands of a line for the place where they run. It is for one line, and not safe for
// concurrent use.
type Resolver struct {
	// Environ is the whole environment, each entry "NAME=VALUE". Of two entries of a name the last applies. nil:
	// unknown.
	Environ []string
	// Roots are the folders that the agent may write in, each absolute.
	Roots []string
	// Quiet: commands that no person allowed get the environment of git.Quiet, as far as their git supports it.
	Quiet bool
	// Seen is a snapshot of the file system at this moment; nil: no cache. It is for acphost's own programs.
	Seen *paths.Cache

	roots []string // as given and resolved
	last  lookup   // the last result, while Seen is in use
	found map[[3]string]*acpv1.Program
}

// Look resolves commands, in their order. It ignores commands after MaxCommands.
func (s *Resolver) Look(commands []*acpv1.SimpleCommand) []*acpv1.Found {
	s.found = map[[3]string]*acpv1.Program{}
	s.roots = nil
	for _, root := range s.Roots {
		s.roots = append(s.roots, filepath.Clean(root))
		if real, ok := s.Seen.Existing(root); ok {
			s.roots = append(s.roots, real)
		}
	}
	all := make([]*acpv1.Found, min(len(commands), MaxCommands))
	for i := range all {
		all[i] = s.resolveCommand(commands[i])
	}
	return all
}

func (s *Resolver) resolveCommand(c *acpv1.SimpleCommand) *acpv1.Found {
	out := &acpv1.Found{}
	inShell := c.GetShell()
	for _, w := range c.GetWrappers() {
		name, option, _ := strings.Cut(w, " ")
		out.WrapperPrograms = append(out.WrapperPrograms, s.program(name, c.GetCwd(), inShell))
		switch {
		case option == "-c": // sh -c, bash -c
			inShell = true
		case inShell && (name == "eval" || name == "command"):
		default:
			inShell = false
		}
	}
	if len(c.GetArgv()) == 0 {
		return out
	}
	name := c.GetArgv()[0]
	out.Program = s.program(name, c.GetCwd(), inShell)
	if base := filepath.Base(name); strings.EqualFold(base, "git") {
		s.git(c, out)
	}
	return out
}

// builtins are the commands that every shell resolved as "sh" implements itself.
var builtins = []string{":", ".", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift",
	"times", "trap", "unset", "alias", "bg", "cd", "command", "fg", "getopts", "hash", "jobs", "kill", "pwd", "read", "type",
	"ulimit", "umask", "unalias", "wait", "echo", "printf", "test", "[", "true", "false"}

// program resolves a name as a command.
func (s *Resolver) program(name, cwd string, inShell bool) *acpv1.Program {
	key := [3]string{name, cwd, ""}
	if inShell {
		key[2] = "shell"
	}
	if known := s.found[key]; known != nil {
		return known
	}
	p := s.resolveProgram(name, cwd, inShell)
	s.found[key] = p
	return p
}

func (s *Resolver) resolveProgram(name, cwd string, inShell bool) *acpv1.Program {
	switch {
	case inShell && slices.Contains(builtins, name):
		return &acpv1.Program{Builtin: true}
	case name == "" || strings.Contains(name, "\x00"):
		return &acpv1.Program{Doubt: "it names no program"}
	case s.Environ == nil:
		return &acpv1.Program{Doubt: "in which folders it is looked for is not known"}
	case !filepath.IsAbs(cwd) && !filepath.IsAbs(name) && (strings.Contains(name, "/") || s.hasRelativePath()):
		return &acpv1.Program{Doubt: "the directory that it is looked for from is not known"}
	}
	file := s.Find(name, cwd)
	if file == "" && inShell && name == "time" { // a keyword of bash
		return &acpv1.Program{Builtin: true}
	}
	if file == "" {
		return s.missingProgram(name)
	}
	p := &acpv1.Program{Path: file}
	var passed []string
	p.ResolvedPath, passed = s.followLinks(file)
	p.InsideRoots = slices.ContainsFunc(passed, s.inside)
	s.checkScript(p)
	s.checkVariables(p, filepath.Base(name))
	return p
}

// missingProgram returns the result for a name without a program. The command fails by itself, so only its name
// matters, unless the agent could create such a program before the command runs.
func (s *Resolver) missingProgram(name string) *acpv1.Program {
	p := &acpv1.Program{Missing: true}
	switch {
	case strings.Contains(name, "/"):
	case s.variable("PATH") == "":
		p.Doubt = "there is no PATH, so that a shell looks in folders of its own choice"
	default:
		if dir := s.workspaceFolder(); dir != "" {
			p.Doubt = fmt.Sprintf("there is no program of that name, and PATH has %s, a folder of the workspace, where one can be put", dir)
			p.DoubtInsideRoots = true
		}
	}
	return p
}

// workspaceFolder returns the first folder of PATH in the workspace; empty if none exists.
func (s *Resolver) workspaceFolder() string {
	if dirs := s.workspacePATH(); len(dirs) > 0 {
		return cmp.Or(dirs[0], ".")
	}
	return ""
}

// workspacePATH returns the folders of PATH in the workspace, and relative ones.
func (s *Resolver) workspacePATH() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(s.variable("PATH")) {
		if _, passed := s.followLinks(dir); !filepath.IsAbs(dir) || slices.ContainsFunc(passed, s.inside) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// checkScript examines a script: its interpreter, and whether that may find other programs in the workspace.
func (s *Resolver) checkScript(p *acpv1.Program) {
	interpreter, ok := interpreterOf(p.GetPath())
	if !ok {
		return
	}
	if interpreter != "" {
		_, passed := s.followLinks(interpreter)
		p.InsideRoots = p.InsideRoots || !filepath.IsAbs(interpreter) || slices.ContainsFunc(passed, s.inside)
	}
	if dir := s.workspaceFolder(); dir != "" {
		p.Doubt, p.DoubtInsideRoots = scriptDoubt(dir), true
	}
}

// scriptDoubt returns the doubt about a script if PATH has a folder of the workspace.
func scriptDoubt(dir string) string {
	return fmt.Sprintf("it is a script, and PATH has %s, a folder of the workspace, where what it runs is looked for too", dir)
}

// loadVariables are variables that name files which programs run or load code from, by program, or "" for all programs.
var loadVariables = map[string][]string{
	"":    {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "BASH_ENV"},
	"rg":  {"RIPGREP_CONFIG_PATH"},
	"git": {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR"},
}

// checkVariables reports variables that make the program run a file of the workspace.
func (s *Resolver) checkVariables(p *acpv1.Program, name string) {
	for _, variable := range slices.Concat(loadVariables[""], loadVariables[name]) {
		for _, file := range strings.FieldsFunc(s.variable(variable), func(r rune) bool { return r == ':' || r == ' ' }) {
			if _, passed := s.followLinks(file); (!filepath.IsAbs(file) && strings.Contains(file, "/")) || variable == "RIPGREP_CONFIG_PATH" && !filepath.IsAbs(file) ||
				slices.ContainsFunc(passed, s.inside) {
				p.Doubt, p.DoubtInsideRoots = fmt.Sprintf("the variable %s has it load %s, a file of the workspace", variable, file), true
				return
			}
		}
	}
}

func (s *Resolver) variable(name string) string {
	for _, entry := range slices.Backward(s.Environ) {
		if len(entry) > len(name) && entry[len(name)] == '=' && strings.HasPrefix(entry, name) {
			return entry[len(name)+1:]
		}
	}
	return ""
}

// hasRelativePath reports whether PATH has a relative folder.
func (s *Resolver) hasRelativePath() bool {
	return slices.ContainsFunc(filepath.SplitList(s.variable("PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })
}

func (s *Resolver) inside(path string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return paths.Below(root, path) })
}

// Find returns the absolute path of the executable that a name refers to: at that path if it contains a slash, else in
// the first folder of path, a list like PATH, that has one. Relative paths start in cwd. Empty if none exists.
func Find(name, path, cwd string) string { return find(nil, name, path, cwd) }

// lookup is the result of resolving a name.
type lookup struct {
	seen                  *paths.Cache
	name, path, cwd, file string
}

// Find is the function Find with the PATH of s.Environ.
func (s *Resolver) Find(name, cwd string) string {
	path := s.variable("PATH")
	if s.Seen == nil {
		return Find(name, path, cwd)
	}
	if was := s.last; was.seen != s.Seen || was.name != name || was.path != path || was.cwd != cwd {
		s.last = lookup{s.Seen, name, path, cwd, find(s.Seen, name, path, cwd)}
	}
	return s.last.file
}

func find(seen *paths.Cache, name, path, cwd string) string {
	if strings.Contains(name, "/") {
		return executable(seen, absolute(name, cwd))
	}
	for dir := range strings.SplitSeq(path, string(filepath.ListSeparator)) {
		if path == "" {
			break // its folder does not exist
		}
		if file := executable(seen, filepath.Join(absolute(dir, cwd), name)); file != "" {
			return file
		}
	}
	return ""
}

func absolute(path, cwd string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(cwd, path)
}

// Executable reports whether a file is regular and this process may execute it.
func Executable(file string) bool { return executable(nil, file) != "" }

func executable(seen *paths.Cache, file string) string {
	if !seen.Executable(file) {
		return ""
	}
	return file
}
