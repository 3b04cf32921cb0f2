package containment

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/paths"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/gate"
	"github.com/acphost/acphost/services/supervisor/internal/intent"
	"github.com/acphost/acphost/services/supervisor/internal/kernel"
)

// startAction returns the action of a process that starts a program. If the program is a shell that runs a line, and the agent is known to
// wrap lines this way, inner is the action of the line.
func (d *Decider) startAction(ctx context.Context, e *event, s intent.Session, ownPath bool) (a, inner *permissionv1.Action) {
	resolver := &programs.Resolver{Environ: d.environOf(e), Seen: e.seen}
	args, another := argsByName(e, resolver)
	start := intent.ProgramStart{Args: args, Another: another, Dir: e.Dir, Env: d.relevantEnv(ctx, e, s, ownPath), Cut: e.Cut}
	e.asAgent = e.asAgent || d.startsForItself(ctx, e, s, start)
	e.lenient = e.lenient || e.asAgent
	e.wrapped = e.wrapped || len(e.Others) > 0 && !d.mayChange(ctx, e.Path, s) // another script may run
	a = intent.Started(s, start)
	d.link.FindPrograms(resolver, a)
	if e.asAgent {
		intent.NothingBy(a)
	}
	kept := func(file string) bool { return d.isKept(file, e.seen) }
	if inner = intent.Unwrapped(s, start, kept); inner != nil {
		d.link.FindPrograms(resolver, inner)
	}
	return a, inner
}

// addsOwnToPath reports whether a program gets a PATH with added folders in which the agent keeps its state.
func (d *Decider) addsOwnToPath(e *event) bool {
	own := filepath.SplitList(kernel.Variable(d.environ(e), "PATH"))
	return slices.ContainsFunc(filepath.SplitList(kernel.Variable(e.Env, "PATH")), func(folder string) bool {
		return !slices.Contains(own, folder) && d.keepsPrograms(folder, e.seen)
	})
}

// keepsPrograms reports whether a folder of programs belongs to the agent.
func (d *Decider) keepsPrograms(folder string, seen *paths.Cache) bool {
	return filepath.IsAbs(folder) && d.isKept(filepath.Join(folder, "program"), seen)
}

// readsOnly reports whether all programs of a command are known to change nothing and to run no further code.
func readsOnly(a *permissionv1.Action) bool {
	c := a.GetCommand()
	return a.GetUnparsed() == "" && c.GetUnparsed() == "" &&
		!slices.ContainsFunc(c.GetSubCommands(), func(s *permissionv1.SubCommand) bool {
			f := s.GetFacts()
			return len(s.GetRedirections()) > 0 || !f.GetKnown() || f.GetRunsCode() || f.GetNetwork() || f.GetChanges() ||
				slices.ContainsFunc(f.GetFiles(), func(u *permissionv1.FileUse) bool { return u.GetAccess() != permissionv1.Access_ACCESS_READ })
		})
}

// relevantEnv returns the variables that a process sets, except harmless ones: PWD, if it is the directory in which the program starts,
// and PATH, by which the programs were found, if the agent cannot change any added folder without being asked. ownPath: added folders of
// the agent are harmless.
func (d *Decider) relevantEnv(ctx context.Context, e *event, s intent.Session, ownPath bool) []string {
	own := kernel.Variable(d.environ(e), "PATH")
	return slices.DeleteFunc(slices.Clone(e.Env), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "SHLVL", "_", "OLDPWD": // set by shells; no program depends on them
			return true
		case "PWD":
			return filepath.IsAbs(value) && e.seen.Real(value) == e.seen.Real(e.Dir)
		case "PATH":
			return !slices.ContainsFunc(filepath.SplitList(value), func(folder string) bool {
				return !slices.Contains(filepath.SplitList(own), folder) && !(ownPath && d.keepsPrograms(folder, s.Seen)) &&
					d.changesFreely(ctx, folder, s)
			})
		}
		return false
	})
}

// changesFreely reports whether the agent may be able to change a folder of programs without being asked.
func (d *Decider) changesFreely(ctx context.Context, folder string, s intent.Session) bool {
	if !filepath.IsAbs(folder) {
		return true
	}
	for _, file := range []string{filepath.Clean(folder), s.Seen.Real(folder)} {
		in := func(root string) bool { return paths.Below(root, file) || paths.Below(file, root) }
		if slices.ContainsFunc(s.Roots, in) || slices.ContainsFunc(s.ResolvedRoots, in) || slices.ContainsFunc(d.opts.Sessions.Roots(), in) ||
			d.isOwn(file) || d.sandbox.Mine.Keeps(filepath.Join(file, "program"), false) {
			return true
		}
		if d.mayChange(ctx, filepath.Join(file, "program"), s) {
			return true
		}
	}
	return false
}

// mayChange reports whether the agent may be able to change a file without being asked.
func (d *Decider) mayChange(ctx context.Context, file string, s intent.Session) bool {
	a := intent.ChangedFile(s, file, permissionv1.Access_ACCESS_WRITE)
	decision, err := d.opts.Gate.Decide(ctx, d.link.Request(s.SessionID, a, s.Seen))
	return err != nil || decision.Verdict == gate.Allow
}

// environOf returns the environment of a program that is about to start.
func (d *Decider) environOf(e *event) []string { return slices.Concat(d.environ(e), e.Env) }

// environ returns the environment that e.Env is compared to.
func (d *Decider) environ(e *event) []string {
	switch {
	case e.command != nil:
		return e.command.environ
	case d.opts.AgentEnviron != nil:
		return d.opts.AgentEnviron
	}
	return os.Environ()
}

// argsByName returns a program's arguments with the program's name as the first. The name is the one that the process passed, as rules use
// it, if PATH resolves that name to the program. Otherwise it is the program's path, because a process can pass any name. git depends on
// its name: "git-push" does what "git push" does. another is a name that neither is the program's nor resolves to it; some programs change
// their behaviour by their name.
func argsByName(e *event, resolver *programs.Resolver) (args []string, another string) {
	args = slices.Clone(e.Args)
	if len(args) == 0 {
		return []string{e.Path}, ""
	}
	if command, ok := strings.CutPrefix(filepath.Base(args[0]), "git-"); ok && filepath.Base(e.Path) == "git" {
		args = slices.Insert(args, 1, command)
		args[0] = "git"
	}
	for _, name := range []string{filepath.Base(args[0]), args[0]} {
		if name == "" || strings.ContainsRune(name, 0) {
			continue
		}
		if file := resolver.Find(name, e.Dir); file != "" {
			if real, ok := e.seen.Existing(file); ok && real == e.Path {
				args[0] = name
				return args, ""
			}
		}
	}
	switch name := filepath.Base(args[0]); {
	case name == "exe", strings.Trim(name, "0123456789") == "": // names such as /proc/self/exe and /dev/fd/3 are not a program's
	case strings.TrimPrefix(name, "-") != filepath.Base(e.Path): // "-bash" is a login shell
		another = name
	}
	args[0] = e.Path
	return args, another
}

// startsForItself reports whether the agent is known to start a program for itself, with exactly these arguments and no variables that may
// change its behaviour. The program is then started as part of the agent, so that its changes and starts are decided. It has to be the
// program that its name resolved to when the agent was started, in a folder that the agent cannot change without being asked.
func (d *Decider) startsForItself(ctx context.Context, e *event, s intent.Session, start intent.ProgramStart) bool {
	if e.command != nil || start.Cut || !d.sandbox.Mine.Starts(start.Args, s.Unknown(start.Env), d.opts.Sessions.Roots()) {
		return false
	}
	found := programs.Find(start.Args[0], kernel.Variable(d.environ(e), "PATH"), "/")
	return found != "" && paths.Real(found) == e.Path && !d.changesFreely(ctx, filepath.Dir(e.Path), s)
}
