// Package programs resolves simple commands on this machine: which program a name means, whether this program lies where
// an agent may write, and which repository git finds. It is for programs that run commands, and for programs that judge
// commands that others run on this machine.
//
// The package reads files and an environment, and runs nothing. Its results can be out of date at once: to run a command,
// execute exactly the file that was found.
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

// MaxCommands is how many simple commands of one line are looked at.
const MaxCommands = 1000

// Resolver finds out what the commands of a line come to where they run. It is for one line, and not for concurrent use.
type Resolver struct {
	// Environ is the whole environment, each entry "NAME=VALUE". Of two entries of a name the last counts. nil: it is not
	// known.
	Environ []string
	// Roots are the folders that the agent may write in, each absolute.
	Roots []string
	// Quiet: where nobody is asked, commands get the environment of git.Quiet, as far as their git takes it.
	Quiet bool
	// Seen is what its user has seen of the disk at this moment; nil: all is looked at anew. It is for acphost's own
	// programs.
	Seen *paths.Cache

	roots []string // spelled and real
	last  lookup   // the last one, by what was seen
	found map[[3]string]*acpv1.Program
}

// Look tells what commands come to, in their order, and nothing of those past MaxCommands.
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
		all[i] = s.look(commands[i])
	}
	return all
}

func (s *Resolver) look(c *acpv1.SimpleCommand) *acpv1.Found {
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

// builtins are what every shell that is taken for "sh" does itself.
var builtins = []string{":", ".", "break", "continue", "eval", "exec", "exit", "export", "readonly", "return", "set", "shift",
	"times", "trap", "unset", "alias", "bg", "cd", "command", "fg", "getopts", "hash", "jobs", "kill", "pwd", "read", "type",
	"ulimit", "umask", "unalias", "wait", "echo", "printf", "test", "[", "true", "false"}

// program tells what a name means as a command.
func (s *Resolver) program(name, cwd string, inShell bool) *acpv1.Program {
	key := [3]string{name, cwd, ""}
	if inShell {
		key[2] = "shell"
	}
	if known := s.found[key]; known != nil {
		return known
	}
	p := s.meant(name, cwd, inShell)
	s.found[key] = p
	return p
}

func (s *Resolver) meant(name, cwd string, inShell bool) *acpv1.Program {
	switch {
	case inShell && slices.Contains(builtins, name):
		return &acpv1.Program{Builtin: true}
	case name == "" || strings.Contains(name, "\x00"):
		return &acpv1.Program{Doubt: "it names no program"}
	case s.Environ == nil:
		return &acpv1.Program{Doubt: "in which folders it is looked for is not known"}
	case !filepath.IsAbs(cwd) && !filepath.IsAbs(name) && (strings.Contains(name, "/") || s.relative()):
		return &acpv1.Program{Doubt: "the directory that it is looked for from is not known"}
	}
	file := s.Find(name, cwd)
	if file == "" && inShell && name == "time" { // a word of bash's own
		return &acpv1.Program{Builtin: true}
	}
	if file == "" {
		return s.missing(name)
	}
	p := &acpv1.Program{Path: file}
	var passed []string
	p.ResolvedPath, passed = s.follow(file)
	p.InsideRoots = slices.ContainsFunc(passed, s.inside)
	s.script(p)
	s.led(p, filepath.Base(name))
	return p
}

// missing is a name that no program has. It is judged by the name, since the command fails by itself; but not where the
// agent could put a program in place before it is looked for again.
func (s *Resolver) missing(name string) *acpv1.Program {
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

// workspaceFolder is the first folder of PATH that lies in the workspace; empty if none does.
func (s *Resolver) workspaceFolder() string {
	if dirs := s.workspacePATH(); len(dirs) > 0 {
		return cmp.Or(dirs[0], ".")
	}
	return ""
}

// workspacePATH are the folders of PATH that lie in the workspace, or depend on where the command runs.
func (s *Resolver) workspacePATH() []string {
	var dirs []string
	for _, dir := range filepath.SplitList(s.variable("PATH")) {
		if _, passed := s.follow(dir); !filepath.IsAbs(dir) || slices.ContainsFunc(passed, s.inside) {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// script looks at a program that is text: its interpreter, and whether that may find other programs in the workspace.
func (s *Resolver) script(p *acpv1.Program) {
	interpreter, ok := interpreterOf(p.GetPath())
	if !ok {
		return
	}
	if interpreter != "" {
		_, passed := s.follow(interpreter)
		p.InsideRoots = p.InsideRoots || !filepath.IsAbs(interpreter) || slices.ContainsFunc(passed, s.inside)
	}
	if dir := s.workspaceFolder(); dir != "" {
		p.Doubt, p.DoubtInsideRoots = scripted(dir), true
	}
}

// scripted says that a program is a script, and PATH has a folder of the workspace.
func scripted(dir string) string {
	return fmt.Sprintf("it is a script, and PATH has %s, a folder of the workspace, where what it runs is looked for too", dir)
}

// leading are variables that name files which programs run or load code from; those of a program, or "" for all.
var leading = map[string][]string{
	"":    {"LD_PRELOAD", "LD_LIBRARY_PATH", "LD_AUDIT", "DYLD_INSERT_LIBRARIES", "DYLD_LIBRARY_PATH", "BASH_ENV"},
	"rg":  {"RIPGREP_CONFIG_PATH"},
	"git": {"GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "SSH_ASKPASS", "GIT_PROXY_COMMAND", "GIT_TEMPLATE_DIR"},
}

// led looks for variables by which the program runs something of the workspace.
func (s *Resolver) led(p *acpv1.Program, name string) {
	for _, variable := range slices.Concat(leading[""], leading[name]) {
		for _, file := range strings.FieldsFunc(s.variable(variable), func(r rune) bool { return r == ':' || r == ' ' }) {
			if _, passed := s.follow(file); (!filepath.IsAbs(file) && strings.Contains(file, "/")) || variable == "RIPGREP_CONFIG_PATH" && !filepath.IsAbs(file) ||
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

// relative reports whether PATH has a folder that depends on where the command runs.
func (s *Resolver) relative() bool {
	return slices.ContainsFunc(filepath.SplitList(s.variable("PATH")), func(dir string) bool { return !filepath.IsAbs(dir) })
}

func (s *Resolver) inside(path string) bool {
	return slices.ContainsFunc(s.roots, func(root string) bool { return paths.Below(root, path) })
}

// Find is the absolute path of the executable that a name means: at that path if there is a slash in it, else in the first
// folder of path, a list as PATH has it, that holds one. Relative ones begin in cwd. Empty: there is none.
func Find(name, path, cwd string) string { return find(nil, name, path, cwd) }

// lookup is what a name means.
type lookup struct {
	seen                  *paths.Cache
	name, path, cwd, file string
}

// Find is the function Find, with the PATH of s.Environ.
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
			break // it has no folder
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

// Executable reports whether a file is a regular one that we may execute.
func Executable(file string) bool { return executable(nil, file) != "" }

func executable(seen *paths.Cache, file string) string {
	if !seen.Executable(file) {
		return ""
	}
	return file
}
