package containment

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/services/supervisor/internal/policy/intent"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// startAction returns the action of a process that starts a program. For a shell and the like, line is the action with
// the commands of its line (intent.Started).
func (d *Decider) startAction(e *event, s intent.Session) (a, line *permissionv1.Action) {
	resolver := &programs.Resolver{Environ: d.environOf(e), Seen: e.seen}
	args, another := argsByName(e, resolver)
	start := intent.ProgramStart{Args: args, Another: another, Dir: e.Dir, Cut: e.Cut}
	for _, entry := range e.Env {
		name, value, _ := strings.Cut(entry, "=")
		switch name {
		case "SHLVL", "_", "OLDPWD", "PATH": // shells set the first three; PATH is added below if it matters
		case "PWD":
			if !filepath.IsAbs(value) || e.seen.Real(value) != e.seen.Real(e.Dir) {
				start.Env = append(start.Env, entry)
			}
		default:
			start.Env = append(start.Env, entry)
		}
	}
	a, line = intent.Started(s, start)
	before := &programs.Resolver{Environ: d.environ(e), Seen: e.seen}
	if path := kernel.Variable(e.Env, "PATH"); path != "" && !findSame(cmp.Or(line, a), before, resolver) {
		start.Env = append(start.Env, "PATH="+path)
		a, line = intent.Started(s, start)
	}
	for _, action := range []*permissionv1.Action{a, line} {
		if action != nil {
			d.link.FindPrograms(resolver, action)
		}
	}
	return a, line
}

// findSame reports whether two resolvers find the same files for the programs of an action.
func findSame(a *permissionv1.Action, one, other *programs.Resolver) bool {
	dir := a.GetCommand().GetCwd()
	differs := func(words string) bool {
		name, _, _ := strings.Cut(words, " ")
		return name != "" && one.Find(name, dir) != other.Find(name, dir)
	}
	return !slices.ContainsFunc(a.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		return len(sub.GetArgv()) > 0 && differs(sub.GetArgv()[0]) || slices.ContainsFunc(sub.GetWrappers(), differs)
	})
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

// argsByName returns a program's arguments with the program's name as the first. The name is the one that the process
// passed, as rules use it, if PATH resolves that name to the program. Otherwise it is the program's path, because a
// process can pass any name. git depends on its name: "git-push" does what "git push" does. another is a name that
// neither is the program's nor resolves to it; some programs change their behaviour by their name.
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
