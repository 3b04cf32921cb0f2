package intent

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// commandList reads several commands. The agent may run them in one shell, or each in its own, so both ways must have
// the same result.
func (r *reader) commandList(v []byte, depth int) bool {
	if line, ok := acp.Exact(v); ok {
		r.commands = append(r.commands, []string{line})
		return true
	}
	var lines []string
	all := true
	err := acp.Elements(v, func(e []byte) bool {
		line, ok := acp.Exact(e)
		if !ok && e[0] == '{' {
			line, ok = r.structured(e, depth)
		} else if !ok {
			r.inside(e, depth+1)
		}
		all = all && ok
		if ok {
			lines = append(lines, line)
		}
		return true
	})
	switch {
	case v[0] == '{':
		r.object(v, depth+1) // a value that is not a list
		return true
	case len(lines) == 0:
		return all && err == nil
	}
	joined := strings.Join(lines, "\n")
	r.commands = append(r.commands, []string{joined})
	if len(lines) > 1 && !sameApart(lines, joined) {
		r.doubt("each of the commands means something else than all of them one after the other")
	}
	return all && err == nil
}

// structured returns the line of a command that is an object with a program and its arguments. Directory and
// environment must be the same for all commands.
func (r *reader) structured(v []byte, depth int) (line string, ok bool) {
	in := reader{d: r.d, tool: r.tool, kind: r.kind, deepest: r.deepest, claim: &claim{source: r.source}}
	in.object(v, depth+1)
	in.addCommand()
	r.paths = append(r.paths, in.paths...)
	r.strays = append(r.strays, in.strays...)
	r.unexplained = append(r.unexplained, in.unexplained...)
	for _, why := range in.unclear {
		r.doubt(why)
	}
	if len(in.cwd)+len(in.env)+len(in.texts) > 0 {
		r.doubt("one of the commands runs in a way of its own")
	}
	return in.text(), in.named()
}

// sameApart reports whether lines have the same simple commands when parsed separately as when parsed together.
func sameApart(lines []string, joined string) bool {
	together, why := shell.Parse(joined)
	if why != "" {
		return true // it is unparsed anyway
	}
	for _, line := range lines {
		alone, why := shell.Parse(line)
		if why != "" || len(alone) > len(together) {
			return false
		}
		for i, sub := range alone {
			if !slices.Equal(sub.GetArgv(), together[i].GetArgv()) {
				return false
			}
		}
		together = together[len(alone):]
	}
	return len(together) == 0
}

// addCommand makes one command of all the commands and arguments that were read.
func (r *reader) addCommand() {
	w, commands, args := r.claim, r.commands, r.args
	for _, c := range commands[min(1, len(commands)):] {
		if !slices.Equal(c, commands[0]) {
			w.doubt("the raw input names more than one command")
		}
	}
	if len(commands) == 0 {
		switch {
		case w.env != nil:
			w.doubt("the raw input has an environment and no command")
		case args != nil:
			w.doubt("the raw input has arguments and no command")
		}
		return
	}
	// Judging the non-empty command is better than judging none.
	c := commands[0]
	if i := slices.IndexFunc(commands, func(c []string) bool { return c[len(c)-1] != "" || len(c) > 1 }); i >= 0 {
		c = commands[i]
	}
	if len(w.cwd) > 1 {
		w.doubt("the raw input names more than one working directory")
	}
	switch {
	case len(c) > 1: // an argv
		w.argv = append(c[1:len(c):len(c)], args...)
	case len(args) == 0:
		w.line = c[0]
	case c[0] != "":
		w.argv = append([]string{c[0]}, args...)
		if strings.ContainsAny(c[0], " \t\n;&|<>()$`\\\"'*?[]{}~#") {
			w.doubt("the command has arguments both in its line and beside it")
		}
	}
}

// command reads a command that is a line or an argv array. An argv gets a first element "", so that it differs from a
// line.
func command(raw []byte) ([]string, bool) {
	if line, ok := acp.Exact(raw); ok {
		return []string{line}, true
	}
	argv, ok := acp.Strings(raw)
	if !ok || len(argv) == 0 {
		return nil, ok
	}
	return append([]string{""}, argv...), true
}

// environment reads variables: ACP's list of name and value, an object, or a list of NAME=VALUE.
func environment(raw []byte) (env []string, ok bool) {
	ok = true
	switch raw[0] {
	case '{':
		err := acp.Members(raw, func(name string, v []byte) bool {
			value, isText := acp.Exact(v)
			ok = ok && isText
			env = append(env, text(name)+"="+value)
			return true
		})
		return env, ok && err == nil
	case '[':
		if env, ok = acp.Strings(raw); ok {
			return env, !slices.ContainsFunc(env, func(e string) bool { return !strings.Contains(e, "=") })
		}
		return variables(raw)
	}
	return nil, false
}

// variables reads ACP's list of environment variables.
func variables(raw []byte) (env []string, ok bool) {
	ok = true
	err := acp.Elements(raw, func(v []byte) bool {
		name, named := acp.Exact(acp.Get(v, "name"))
		value, valued := acp.Exact(acp.Get(v, "value"))
		ok = ok && named && valued
		env = append(env, name+"="+value)
		return true
	})
	return env, ok && err == nil
}
