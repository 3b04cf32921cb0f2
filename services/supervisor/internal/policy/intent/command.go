package intent

import (
	"os"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// command builds the action's Command from the claim, and adds the files that it redirects. It does nothing if the
// claim has no command.
func (s Session) command(a *permissionv1.Action, w claim, p *paths) {
	if !w.named() {
		return
	}
	c := &permissionv1.Command{Env: w.env}
	if len(w.cwd) > 0 {
		s.directory(a, c, w.cwd[0], p)
	}
	if w.elsewhere {
		c.CwdDoubtful = !s.StaysPut
	}
	if len(w.argv) > 0 {
		c.Argv, c.Text = w.argv, shell.Quote(w.argv)
		split := s.here(c).FromArgv
		if w.alone {
			split = s.here(c).Program
		}
		c.SubCommands, c.Unparsed = orNone(split(w.argv))
	} else {
		c.Text = w.line
		c.SubCommands, c.Unparsed = orNone(s.here(c).Parse(w.line))
	}
	c.Text = text(c.Text)
	if len(c.Text) > maxRawInput {
		c.Text, c.Argv = cut(c.Text, maxRawInput), nil
		unparsed(a, "the command is over 1 MiB")
	}
	a.Command = c
	if w.elsewhere {
		p.unplaced(c)
	}
	p.redirections(c)
	p.words(c)
	p.facts(c)
}

// here returns the folder in which a command runs, if its files are visible to this process and no known setting
// changes how a shell expands words. Settings that only the command's own shell has, in a startup file of the user,
// are not considered.
func (s Session) here(c *permissionv1.Command) shell.Here {
	dir := c.GetCwd()
	if dir == "" && len(s.Roots) > 0 {
		dir = s.Roots[0]
	}
	harmful := func(entry string) bool { return !shell.HarmlessVariable(entry) }
	expands := func(name string) bool { return os.Getenv(name) != "" }
	if !s.Local || c.GetCwdDoubtful() || slices.ContainsFunc(c.GetEnv(), harmful) || slices.ContainsFunc(expansion, expands) ||
		!utf8.ValidString(dir) || strings.ContainsRune(dir, 0) {
		return shell.Here{}
	}
	return shell.Here{Dir: path.Clean(dir), Seen: s.Seen}
}

// expansion are the variables that change how shells expand words, or that name a file which may do so.
var expansion = []string{"BASHOPTS", "SHELLOPTS", "GLOBIGNORE", "BASH_ENV", "BASH_COMPAT", "ZDOTDIR"}

// orNone adds the reason "no command" if a parsed line has no commands.
func orNone(subs []*permissionv1.SubCommand, unparsed string) ([]*permissionv1.SubCommand, string) {
	if len(subs) == 0 && unparsed == "" {
		unparsed = "there is no command in it"
	}
	return subs, unparsed
}

// Executed replaces the action's command by argv, executed without a shell. Call it if the agent's line turns out to
// be the name of a program. Text, directory and paths do not change. a must be an action of s with a command.
func (s Session) Executed(a *permissionv1.Action, argv []string) {
	c := a.GetCommand()
	if c == nil {
		return
	}
	c.Argv = argv
	c.SubCommands, c.Unparsed = orNone(s.here(c).FromArgv(argv))
	p := newPaths(s, a)
	for _, pa := range a.GetPaths() {
		p.seen[pa.GetPath()] = pa
	}
	p.redirections(c)
	p.words(c)
	p.facts(c)
}

// directory sets the directory in which a command runs: the real path if the agent's path leads through a link, else
// the agent's path.
func (s Session) directory(a *permissionv1.Action, c *permissionv1.Command, cwd string, p *paths) {
	dir, why := local(cwd)
	if why != "" {
		unparsed(a, "the working directory: "+why)
		c.Cwd = strings.ReplaceAll(text(cwd), "\x00", "\uFFFD")
		return
	}
	abs, ok := s.absolute(dir)
	if !ok {
		unparsed(a, "the working directory is relative, and the session has none")
	}
	c.Cwd = abs
	if !ok || strings.ContainsRune(abs, 0) || !utf8.ValidString(abs) {
		return
	}
	if at := p.folder(abs); at.Resolved != "" && !p.sameBelow(path.Clean(abs), at.Resolved) {
		c.Cwd = at.Resolved
	}
}
