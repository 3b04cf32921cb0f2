// Package command determines what a command line runs: the program, its arguments, its directory and its environment.
//
// It knows the rules, the file system and PATH. It starts nothing, and does not know terminals or gRPC.
package command

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/sdk/programs"
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
	// Unasked: nobody was asked about it; see unasked.
	Unasked bool
}

// Argv is what is given to exec.
type Argv struct {
	Args []string
	// Shell says that Args are a shell and a line that came as one string.
	Shell bool
	// Program is the absolute path of the file to execute, where that was decided about. Empty: Args[0] is looked for,
	// unless Missing says that there was none.
	Program string
	Missing bool
	// Folder is the working directory that was decided about. Nil: none was.
	Folder *Folder
}

// Folder is one folder, whatever is put in its place.
type Folder struct {
	// Path is absolute and without symbolic links.
	Path          string
	Device, Inode uint64
}

// Plan is what runs.
type Plan struct {
	// Argv is what is executed. Its Program is empty if there is none.
	Argv
	// Cwd is the working directory as asked for. Argv's Folder is the one that it leads to, never nil.
	Cwd string
	// Env is the whole environment, each "NAME=VALUE".
	Env []string
	// Sandbox is the sandbox that it runs in. Nil: it runs in none.
	Sandbox *Sandbox

	appeared bool // the program has come since there was none
}

// Sandbox says how a command runs in a sandbox.
type Sandbox struct {
	// Flags are those of the sandbox's command line that say how it confines.
	Flags []string
	// Env are variables that the command has in place of others of the same names, each "NAME=VALUE".
	Env []string
	// Decisions is the socket by which it asks. Whoever starts the command closes it.
	Decisions *os.File
}

// Confine has the plan run in a sandbox.
func (p *Plan) Confine(box *Sandbox) {
	env := environment(p.Env)
	for _, entry := range box.Env {
		name, value, _ := strings.Cut(entry, "=")
		env.set(name, value)
	}
	p.Env, p.Sandbox = env, box
}

// Surroundings are what commands have in common.
type Surroundings struct {
	// Environ is what they inherit; see Inherit.
	Environ []string
	// Protected are absolute paths of what no command may run in.
	Protected []string
}

// Resolve decides what runs. Errors are ErrInvalid, ErrProtected or ErrReplaced. That no program is found is not one of
// them: see Plan.Startable.
//
// With Args, Command is a program. Without, Command is one too if there is an executable of that whole name: at that path
// if it has a slash in it (relative ones start in Cwd), else in the PATH of the command's environment. All else is a line
// for sh -c.
func Resolve(s Surroundings, r Request) (Plan, error) {
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
	spelled, folder, err := workingDirectory(r.Cwd, r.Roots, s.Protected)
	if err != nil {
		return Plan{}, err
	}
	if r.Decided != nil && r.Decided.Folder != nil && *r.Decided.Folder != folder {
		return Plan{}, Replaced(spelled)
	}
	real := folder.Path
	env, err := environ(s.Environ, r.Env, spelled)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Argv: Argv{Args: slices.Clone(args), Folder: &folder}, Cwd: spelled, Env: env}
	if r.Unasked {
		p.Env = unasked(env)
	}
	path := env.get("PATH")
	switch {
	case r.Decided != nil:
		p.Shell = r.Decided.Shell
		switch p.Program = r.Decided.Program; {
		case p.Program != "": // it, or nothing: a file that was put in its way since is not looked for
			if !filepath.IsAbs(p.Program) {
				return Plan{}, Invalid("context: resolved_command: program: %q is not an absolute path", p.Program)
			}
			if !programs.Executable(p.Program) {
				p.Program = ""
			}
		case r.Decided.Missing: // nor one that is there only now
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

// Startable says whether there is a program to run; the error is ErrCannotStart.
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
