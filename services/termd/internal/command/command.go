// Package command works out what really runs for a command line: which program, with which arguments, in which directory
// and with which environment.
//
// It knows the rules, the file system and PATH. It starts nothing, and knows nothing of terminals or gRPC.
package command

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// shell runs lines. It is never looked for in PATH, which the request may set.
const shell = "/bin/sh"

// Request is a command as it was asked for.
type Request struct {
	// Command is a program, or with no Args and no executable of that whole name, a line for a shell.
	Command string
	Args    []string
	Env     []Variable
	// Cwd is absolute. Empty: the first root.
	Cwd string
	// Roots are the directories that Cwd must lie in. At least one.
	Roots []string
	// Decided is what was decided before; it then runs exactly so. Nil: decide.
	Decided *Argv
}

// Argv is what is given to exec.
type Argv struct {
	Args []string
	// Shell says that Args are a shell and a line that came as one string.
	Shell bool
}

// Plan is what runs.
type Plan struct {
	Argv
	// Program is the absolute path of the file that is executed. Empty: there is none.
	Program string
	// Cwd is the working directory as asked for, and RealCwd the same without symbolic links.
	Cwd, RealCwd string
	// Env is the whole environment, each "NAME=VALUE".
	Env []string
}

// Surroundings are what commands have in common.
type Surroundings struct {
	// Environ is what they inherit; see Inherit.
	Environ []string
	// Protected are absolute paths of what no command may run in.
	Protected []string
}

// Resolve decides what runs. Errors are ErrInvalid or ErrProtected. That no program is found is not one of them: see
// Plan.Startable.
//
// With Args, Command is a program. Without, Command is one too if there is an executable of that whole name: at that
// path if it has a slash in it (relative ones start in Cwd), else in the PATH of the command's environment. All else is a
// line for sh -c.
func Resolve(s Surroundings, r Request) (Plan, error) {
	if r.Decided == nil && strings.TrimSpace(r.Command) == "" {
		return Plan{}, invalid("command: it is empty")
	}
	args := append([]string{r.Command}, r.Args...)
	if r.Decided != nil {
		args = r.Decided.Args
		if len(args) == 0 || args[0] == "" {
			return Plan{}, invalid("context: resolved_command has no program")
		}
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return Plan{}, invalid("command: it has a NUL character in it")
	}
	spelled, real, err := workingDirectory(r.Cwd, r.Roots, s.Protected)
	if err != nil {
		return Plan{}, err
	}
	env, err := environ(s.Environ, r.Env, spelled)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Argv: Argv{Args: slices.Clone(args)}, Cwd: spelled, RealCwd: real, Env: env}
	path := env.get("PATH")
	switch {
	case r.Decided != nil:
		p.Shell = r.Decided.Shell
		if p.Program = find(args[0], path, real); p.Shell && args[0] == "sh" {
			p.Program = shell
		}
	case len(r.Args) > 0:
		p.Program = find(args[0], path, real)
	default:
		if p.Program = find(args[0], path, real); p.Program == "" {
			p.Argv = Argv{Args: []string{"sh", "-c", r.Command}, Shell: true}
			p.Program = shell
		}
	}
	return p, nil
}

// Startable says whether there is a program to run; the error is ErrCannotStart.
func (p Plan) Startable() error {
	switch {
	case p.Program != "":
		return nil
	case strings.Contains(p.Args[0], "/"):
		return CannotStart(p.Args[0], errText("there is no executable file at that path"))
	}
	return CannotStart(p.Args[0], errText("no executable of that name in PATH"))
}

// find is the absolute path of the executable that a name means.
func find(name, path, cwd string) string {
	if strings.Contains(name, "/") {
		return executable(absolute(name, cwd))
	}
	for _, dir := range filepath.SplitList(path) {
		if file := executable(filepath.Join(absolute(dir, cwd), name)); file != "" {
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

// executable is file if it is a regular file that we may execute.
func executable(file string) string {
	info, err := os.Stat(file)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0 || unix.Access(file, unix.X_OK) != nil {
		return ""
	}
	return file
}

type errText string

func (e errText) Error() string { return string(e) }
