// Package command determines how a command line runs: the program, its arguments, its directory and its environment.
//
// It knows the rules, the file system and PATH. It starts nothing, and must not know terminals or gRPC.
package command

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/sdk/programs"
)

// shell runs lines. It is never searched for in PATH, which the request may set.
const shell = "/bin/sh"

// Request is a requested command.
type Request struct {
	// Command is a program. Without Args, and if there is no executable with that whole name, it is a line for a shell.
	Command string
	Args    []string
	Env     []Variable
	// Cwd is absolute. Empty: the first root.
	Cwd string
	// Roots are the directories of which one must contain Cwd. At least one.
	Roots []string
	// Decided is the result of an earlier decision, which then runs exactly so. Nil: Resolve decides.
	Decided *Argv
	// RuleAllowed: a rule allowed the command, and no person was asked; see quietEnv.
	RuleAllowed bool
}

// Argv are the parameters of exec.
type Argv struct {
	Args []string
	// Shell means that Args are a shell and a line that was requested as one string.
	Shell bool
	// Program is the absolute path of the file to execute, if it was decided on. Empty: Args[0] is searched for, unless
	// Missing means that no program was found then.
	Program string
	Missing bool
	// Folder is the working directory that was decided on. Nil: none.
	Folder *Folder
}

// Folder identifies a folder, even if its path is replaced.
type Folder struct {
	// Path is absolute and without symbolic links.
	Path          string
	Device, Inode uint64
}

// Plan is the resolved command.
type Plan struct {
	// Argv is the command to execute. Its Program is empty if no program was found.
	Argv
	// Cwd is the requested working directory. Argv's Folder is the folder that it leads to, never nil.
	Cwd string
	// Env is the whole environment, each "NAME=VALUE".
	Env []string
	// Sandbox is the sandbox of the command. Nil: none.
	Sandbox *Sandbox

	appeared bool // the program exists now, but did not when it was decided on
}

// Sandbox configures the sandbox of a command.
type Sandbox struct {
	// Flags are the flags of the sandbox's command line that configure its confinement.
	Flags []string
	// Env are variables that replace others of the same names in the command's environment, each "NAME=VALUE".
	Env []string
	// Group is the folder of the control group that the sandbox starts in. Empty: the caller's group.
	Group string
	// Decisions is the socket on which it asks for decisions. The caller that starts the command closes it.
	Decisions *os.File
}

// Confine changes the plan to run in a sandbox.
func (p *Plan) Confine(box *Sandbox) {
	env := environment(p.Env)
	for _, entry := range box.Env {
		name, value, _ := strings.Cut(entry, "=")
		env.set(name, value)
	}
	p.Env, p.Sandbox = env, box
}

// Config is common to all commands.
type Config struct {
	// Environ is the environment that they inherit; see Inherit.
	Environ []string
	// Protected are absolute paths in which no command may run.
	Protected []string
}

// Resolve decides how a request runs. Errors are ErrInvalid, ErrProtected or ErrReplaced. A missing program is not an
// error here: see Plan.Startable.
//
// With Args, Command is a program. Without Args, Command is a program if there is an executable with that whole name:
// at that path if it contains a slash (relative paths start in Cwd), else in the PATH of the command's environment.
// Otherwise it is a line for sh -c.
func Resolve(s Config, r Request) (Plan, error) {
	if r.Decided == nil && strings.TrimSpace(r.Command) == "" {
		return Plan{}, Invalid("command: it is empty")
	}
	args := append([]string{r.Command}, r.Args...)
	if r.Decided != nil {
		args = r.Decided.Args
		if len(args) == 0 || args[0] == "" {
			return Plan{}, Invalid("context: resolved_command has no program")
		}
	}
	if slices.ContainsFunc(args, func(a string) bool { return strings.Contains(a, "\x00") }) {
		return Plan{}, Invalid("command: it has a NUL character in it")
	}
	cleaned, folder, err := workingDirectory(r.Cwd, r.Roots, s.Protected)
	if err != nil {
		return Plan{}, err
	}
	if r.Decided != nil && r.Decided.Folder != nil && *r.Decided.Folder != folder {
		return Plan{}, Replaced(cleaned)
	}
	real := folder.Path
	env, err := environ(s.Environ, r.Env, cleaned)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Argv: Argv{Args: slices.Clone(args), Folder: &folder}, Cwd: cleaned, Env: env}
	if r.RuleAllowed {
		p.Env = quietEnv(env)
	}
	path := env.get("PATH")
	switch {
	case r.Decided != nil:
		p.Shell = r.Decided.Shell
		switch p.Program = r.Decided.Program; {
		case p.Program != "": // exactly that file: another one that takes precedence by now is not searched for
			if !filepath.IsAbs(p.Program) {
				return Plan{}, Invalid("context: resolved_command: program: %q is not an absolute path", p.Program)
			}
			if !programs.Executable(p.Program) {
				p.Program = ""
			}
		case r.Decided.Missing: // nor is a program that exists only now
			p.appeared = programs.Find(args[0], path, real) != ""
		case p.Shell && args[0] == "sh":
			p.Program = shell
		default:
			p.Program = programs.Find(args[0], path, real)
		}
	case len(r.Args) > 0:
		p.Program = programs.Find(args[0], path, real)
	default:
		if p.Program = programs.Find(args[0], path, real); p.Program == "" {
			p.Args, p.Shell, p.Program = []string{"sh", "-c", r.Command}, true, shell
		}
	}
	return p, nil
}

// Startable returns an ErrCannotStart if there is no program to run.
func (p Plan) Startable() error {
	switch {
	case p.Program != "":
		return nil
	case p.appeared:
		return CannotStart(p.Args[0], errors.New("there was no executable of that name when it was decided about; ask again, now that there is one"))
	case strings.Contains(p.Args[0], "/"):
		return CannotStart(p.Args[0], errors.New("there is no executable file at that path"))
	}
	return CannotStart(p.Args[0], errors.New("no executable of that name in PATH"))
}
