package intent

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/dialect"
)

// Bounds on what is looked at of an input. Past them the call is unclear.
const (
	maxNested    = 32 // levels, counting texts that hold JSON
	maxNestedBig = 2  // levels of an input that is over maxRawInput
	maxDoubts    = 100
	maxStrays    = 256 // texts that are looked at as paths
)

// reader reads the input of one tool call: whatever names files, commands and addresses in it, at any depth. A member that
// nobody knows makes the call unclear, and so does one with an unexpected value: the agent may read what the reader does not.
type reader struct {
	d    *dialect.Dialect
	tool dialect.Tool
	kind string // as the agent says
	*claim

	commands [][]string // a line alone, or an argv that begins with ""
	args     []string
	deepest  int // how deep is looked
}

// meaning is what a member stands for, by its name in lower case; empty: nobody knows. own: the agent's dialect says so.
func (r *reader) meaning(name string) (m dialect.Meaning, own bool) {
	for i, members := range [...]map[string]dialect.Meaning{r.tool.Members, r.d.Members, dialect.Common().Members} {
		if m := members[name]; m != "" {
			if m == dialect.Unknown {
				return "", false
			}
			return m, i < 2
		}
	}
	return "", false
}

// input reads all of a raw input.
func (r *reader) input(raw []byte) {
	r.deepest = maxNested
	if len(raw) > maxRawInput {
		r.deepest = maxNestedBig
	}
	switch {
	case empty(raw):
		return
	case raw[0] == '{':
		r.object(raw, 0)
	case r.tool.Input != "":
		r.member(r.tool.Input, "all of it", raw, raw, 0)
	default:
		r.doubt("the raw input is no object")
		r.unknown("", raw, 0)
	}
	r.addCommand()
}

// explained doubts what nobody knows the meaning of.
func (r *reader) explained() {
	if r.named() && len(r.texts) > 0 {
		r.doubt("there is a text beside the command, which may be for it to read")
	}
	if n := len(r.unexplained); n > 0 {
		more := ""
		if n > 3 {
			more = fmt.Sprintf(" and %d more", n-3)
		}
		r.doubt("what the raw input holds as " + strings.Join(r.unexplained[:min(n, 3)], ", ") + more + " is not known")
	}
}

// object reads the members of an object.
func (r *reader) object(raw []byte, depth int) {
	if r.tooDeep(depth) {
		return
	}
	spelled := map[string]string{}
	var ends [][]byte
	var endNames []string
	err := acp.Members(raw, func(name string, v []byte) bool {
		if string(v) == "null" {
			return true
		}
		folded := strings.ToLower(name)
		m, own := r.meaning(folded)
		if before, twice := spelled[folded]; twice && m != "" {
			r.doubt(fmt.Sprintf("the raw input has both %s and %s", before, name))
		}
		spelled[folded] = name
		switch {
		case m == dialect.Note && own: // whatever it holds
		case m == dialect.End:
			ends, endNames = append(ends, v), append(endNames, folded)
		case m == "":
			r.unknown(folded, v, depth)
		default:
			r.member(m, folded, raw, v, depth)
		}
		return true
	})
	if err != nil {
		r.doubt("the raw input cannot be read in one way only")
	}
	for i, v := range ends {
		if len(ends) > 1 || r.kind == "move" || certainPath(v) {
			r.expect(r.files(v, depth), endNames[i])
		} else {
			r.unknown(endNames[i], v, depth)
		}
	}
}

// member reads a member with a meaning. of is the object that it is in.
func (r *reader) member(m dialect.Meaning, name string, of, v []byte, depth int) {
	ok := true
	switch m {
	case dialect.Command:
		var c []string
		if c, ok = command(v); c != nil {
			r.commands = append(r.commands, c)
		}
	case dialect.Commands:
		ok = r.commandList(v, depth)
	case dialect.Arguments:
		var list []string
		if list, ok = acp.Strings(v); ok && len(list) > 0 {
			if r.args != nil {
				r.doubt("the raw input has more than one list of arguments")
			}
			r.args = list
		}
	case dialect.Directory:
		var dir string
		if dir, ok = acp.Exact(v); ok && dir != "" && !slices.Contains(r.cwd, dir) {
			r.cwd = append(r.cwd, dir)
		}
	case dialect.Environment:
		r.env, ok = environment(v)
	case dialect.Path:
		ok = r.files(v, depth)
	case dialect.PatchedNames:
		ok = patchedList(acp.Get(of, "files")) || r.files(v, depth)
	case dialect.PatchedFiles:
		if !patchedList(v) {
			ok = r.files(v, depth)
			break
		}
		r.patched(v)
	case dialect.URL:
		ok = r.addresses(v)
	case dialect.Patch:
		ok = r.patchText(v)
	case dialect.Changes:
		ok = r.changes(v)
	case dialect.Pattern:
		ok = r.patterns(v)
	case dialect.Text, dialect.Note:
		r.saying(m, name, v, depth)
	case dialect.Nested:
		r.nested(name, v, depth)
	case dialect.Whole:
		r.whole = depth == 0
	case dialect.More:
		if !nothing(v) {
			r.doubt("the agent asks for more than the action itself: " + name)
		}
	case dialect.Question:
		r.doubt("the agent asks a question of its own, which allowing it does not answer")
	case dialect.Subagent:
		r.doubt("the agent starts another, of which nothing is told or asked any more")
	}
	r.expect(ok, name)
	switch m {
	case dialect.Path, dialect.PatchedNames, dialect.PatchedFiles, dialect.Commands: // these were looked into: never twice
	default:
		if !ok {
			r.inside(v, depth)
		}
	}
}

// unknown looks at a value of which nobody knows what it stands for. Numbers, false and what is empty name nothing.
func (r *reader) unknown(name string, v []byte, depth int) {
	if nothing(v) {
		return
	}
	if name != "" {
		r.unexplained = append(r.unexplained, cut(name, 64))
	}
	r.inside(v, depth)
}

func (r *reader) tooDeep(depth int) bool {
	if depth > r.deepest {
		r.doubt("the raw input is nested deeper than is looked at")
	}
	return depth > r.deepest
}

// inside looks for what else a value names, wherever in it: texts may be patches, addresses of files, paths, or JSON again.
func (r *reader) inside(v []byte, depth int) {
	if r.tooDeep(depth) {
		return
	}
	switch v[0] {
	case '{':
		r.object(v, depth+1)
	case '[':
		r.expectList(acp.Elements(v, func(e []byte) bool { r.inside(e, depth+1); return true }))
	case '"':
		s, _ := acp.String(v)
		switch p := readPatch(s); {
		case p.found():
			r.addPatch(p)
		case hasScheme(s, "file"):
			r.paths = append(r.paths, s)
		case isJSON(s):
			r.inside([]byte(strings.TrimSpace(s)), depth+1)
		default:
			if len(r.strays) < maxStrays {
				r.strays = append(r.strays, s)
			}
		}
	}
}

func (r *reader) expectList(err error) {
	if err != nil {
		r.doubt("the raw input cannot be read in one way only")
	}
}

// nothing reports whether a value names nothing, whatever it stands for.
func nothing(v []byte) bool {
	switch v[0] {
	case '"':
		return len(v) == 2
	case '{', '[', 't':
		return acp.EmptyInput(v) || string(v) == "[]"
	}
	return true
}

// isJSON reports whether a text is an object or a list.
func isJSON(s string) bool {
	s = strings.TrimSpace(s)
	switch {
	case strings.HasPrefix(s, "{"):
		return acp.Members([]byte(s), func(string, []byte) bool { return true }) == nil
	case strings.HasPrefix(s, "["):
		return acp.Elements([]byte(s), func([]byte) bool { return true }) == nil
	}
	return false
}

// certainPath reports whether a value cannot be anything but a path.
func certainPath(v []byte) bool {
	s, ok := acp.Exact(v)
	return ok && !strings.ContainsAny(s, "\n\r") &&
		(path.IsAbs(s) || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || hasScheme(s, "file"))
}

// files takes a path, a list of some, or of objects that have some.
func (r *reader) files(v []byte, depth int) bool {
	one := func(v []byte) bool {
		p, ok := acp.Exact(v)
		switch {
		case !ok || isJSON(p): // some tools take a list in a text
			r.inside(v, depth)
			return false
		case p != "":
			r.paths = append(r.paths, p)
		}
		return true
	}
	if v[0] != '[' {
		return one(v)
	}
	all := true
	err := acp.Elements(v, func(e []byte) bool {
		if e[0] != '{' {
			all = one(e) && all
			return true
		}
		before := len(r.paths)
		r.object(e, depth+1)
		all = all && len(r.paths) > before
		return true
	})
	return all && err == nil
}

// nested reads an object, or a list of objects, whose members mean the same there.
func (r *reader) nested(name string, v []byte, depth int) {
	switch v[0] {
	case '{':
		r.object(v, depth+1)
	case '[':
		r.expectList(acp.Elements(v, func(e []byte) bool {
			if e[0] == '{' {
				r.object(e, depth+1)
			} else {
				r.unknown(name, e, depth+1)
			}
			return true
		}))
	default:
		r.unknown(name, v, depth)
	}
}

// saying takes a text or a note: a value, or a list of some. Anything else is not what the name says.
func (r *reader) saying(m dialect.Meaning, name string, v []byte, depth int) {
	say := func(v []byte) {
		if v[0] == '{' || v[0] == '[' {
			r.unknown(name, v, depth)
		} else if s, ok := acp.String(v); ok && s != "" && m == dialect.Text {
			r.texts = append(r.texts, s)
		}
	}
	if v[0] != '[' {
		say(v)
		return
	}
	r.expectList(acp.Elements(v, func(e []byte) bool { say(e); return true }))
}

// addresses takes an address, or a list of some.
func (r *reader) addresses(v []byte) bool {
	list := []string{""}
	var ok bool
	if list[0], ok = acp.Exact(v); !ok {
		list, ok = acp.Strings(v)
	}
	for _, s := range list {
		switch {
		case s == "":
		case hasScheme(s, "file"):
			r.paths = append(r.paths, s)
		case hasScheme(s, "http"), hasScheme(s, "https"), !strings.Contains(s, ":") && strings.Trim(s[:1], "/.~") != "":
			r.addressed = true
		default:
			ok = false
		}
	}
	return ok
}

// patterns takes what is looked for below a folder. One that leads out of it names other folders.
func (r *reader) patterns(v []byte) bool {
	list := []string{""}
	var ok bool
	if list[0], ok = acp.Exact(v); !ok {
		list, ok = acp.Strings(v)
	}
	for _, s := range list {
		r.patterned = r.patterned || s != ""
		if strings.HasPrefix(s, "/") || strings.HasPrefix(s, "~") || strings.Contains(s, "..") && slices.Contains(strings.Split(s, "/"), "..") {
			r.doubt("the pattern may lead out of the folder that is searched")
		}
	}
	return ok
}

// changes takes an object whose names are files: {"update": {"move_path": …}} moves one.
func (r *reader) changes(v []byte) bool {
	err := acp.Members(v, func(file string, change []byte) bool {
		r.paths = append(r.paths, text(file))
		for _, to := range [][]byte{acp.Get(change, "move_path"), acp.Get(change, "update", "move_path")} {
			if len(to) > 0 && string(to) != "null" {
				r.expect(r.files(to, 0), "move_path")
				r.doubt(moves)
			}
		}
		if kind, _ := acp.Exact(acp.Get(change, "type")); kind == "delete" || acp.Get(change, "delete") != nil {
			r.doubt(deletes)
		}
		return true
	})
	return err == nil
}

// patchedList reports whether a value is a list of the files of a patch.
func patchedList(list []byte) bool {
	found := false
	_ = acp.Elements(list, func(v []byte) bool {
		found = found || v[0] == '{'
		return true
	})
	return found
}

// patched adds the files of a patch, as OpenCode lists them. What does more to one than to change it is no edit, which is
// what OpenCode calls it.
func (r *reader) patched(files []byte) {
	err := acp.Elements(files, func(v []byte) bool {
		file, ok := acp.Exact(acp.Get(v, "filePath"))
		r.expect(ok && file != "", "files")
		r.paths = append(r.paths, file)
		to := acp.Get(v, "movePath")
		moving := len(to) > 0 && string(to) != "null"
		r.expect(!moving || r.files(to, 0), "movePath")
		switch kind, _ := acp.Exact(acp.Get(v, "type")); {
		case moving || kind == "move":
			r.doubt(moves)
		case kind == "delete":
			r.doubt(deletes)
		case kind != "add" && kind != "update":
			r.doubt("what the patch does to a file is not said")
		}
		return true
	})
	r.expect(err == nil, "files")
}

// commandList takes several commands. They may run one after the other in one shell, or each in its own: what they come to
// must be the same.
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
		r.object(v, depth+1) // one that is no list
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

// structured is the line of a command that is an object: a program and its arguments. Where it runs, and with what, must be
// the same for all.
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

// sameApart reports whether lines have the same simple commands each for itself as they have together.
func sameApart(lines []string, joined string) bool {
	together, why := shell.Parse(joined)
	if why != "" {
		return true // it is not understood anyway
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

// addCommand makes one command of all that were named, and of the arguments beside them.
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
	// A command that is not empty is better judged than none.
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

// command reads a command that is a line or an argv array. An argv begins with "", so that it cannot be mistaken.
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
