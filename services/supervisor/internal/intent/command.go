package intent

import (
	"path"
	"strings"
	"unicode/utf8"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/shell"
)

// command builds the action's Command of what the agent said, and adds the files that it redirects; nothing if the
// agent named no command.
func (s Scene) command(a *permissionv1.Action, w said, p *paths) {
	if !w.named() {
		return
	}
	c := &permissionv1.Command{Env: w.env}
	if len(w.argv) > 0 {
		c.Argv = w.argv
		c.Text = shell.Quote(w.argv)
		c.SubCommands, c.Unparsed = shell.FromArgv(w.argv)
	} else {
		c.Text = w.line
		c.SubCommands, c.Unparsed = shell.Parse(w.line)
	}
	c.Text = text(c.Text)
	if len(c.Text) > maxRawInput {
		c.Text, c.Argv = cut(c.Text, maxRawInput), nil
		unparsed(a, "the command is over 1 MiB")
	}
	if len(c.SubCommands) == 0 && c.Unparsed == "" {
		c.Unparsed = "there is no command in it"
	}
	a.Command = c
	if len(w.cwd) > 0 {
		s.directory(a, c, w.cwd[0], p)
	}
	if w.elsewhere {
		p.unplaced(c)
	}
	p.redirections(c)
	p.words(c)
}

// Executed has the action's command be argv, executed without a shell, where it turns out that this is what the line of the
// agent means: the name of a program. Its text, directory and paths stay. a is one that s has made and that names a command.
func (s Scene) Executed(a *permissionv1.Action, argv []string) {
	c := a.GetCommand()
	if c == nil {
		return
	}
	c.Argv = argv
	c.SubCommands, c.Unparsed = shell.FromArgv(argv)
	if len(c.SubCommands) == 0 && c.Unparsed == "" {
		c.Unparsed = "there is no command in it"
	}
	p := newPaths(s, a)
	for _, pa := range a.GetPaths() {
		p.seen[pa.GetPath()] = pa
	}
	p.redirections(c)
	p.words(c)
}

// directory sets where a command runs: as the agent spells it where that is the place that it reads, else where it really
// leads.
func (s Scene) directory(a *permissionv1.Action, c *permissionv1.Command, cwd string, p *paths) {
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
