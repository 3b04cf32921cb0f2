package intent

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
)

// Bounds on the reading of an input. An input beyond them is unclear.
const (
	maxNested    = 32 // levels, including those of texts that hold JSON
	maxNestedBig = 2  // levels of an input that is over maxRawInput
	maxDoubts    = 100
	maxStrays    = 256 // texts that are resolved as paths
)

// reader reads the input of one tool call: all files, commands and addresses in it, at any depth. A member with an
// unknown meaning or an unexpected value makes the call unclear, because the agent may read something else there.
type reader struct {
	d    *dialect.Dialect
	tool dialect.Tool
	kind string // ACP's kind, as the agent sent it
	*claim

	commands [][]string // a single line, or an argv after a first element ""
	args     []string
	deepest  int // the depth limit
}

// meaning returns the meaning of a member by its name in lower case; empty if it is unknown. own: it is from the
// agent's dialect.
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

// input reads a whole raw input.
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

// explained adds a doubt if members with unknown meaning were found.
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
		case m == dialect.Note && own: // with any value
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

// member reads a member with a known meaning. of is the object that contains it.
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
	case dialect.Text, dialect.Written, dialect.Note:
		r.saying(m, name, v, depth)
	case dialect.Nested:
		r.nested(name, v, depth)
	case dialect.Whole:
		r.whole = depth == 0
	case dialect.More:
		if !isEmptyValue(v) {
			r.doubt("the agent asks for more than the action itself: " + name)
		}
	case dialect.Question:
		r.doubt("the agent asks a question of its own, which allowing it does not answer")
	case dialect.Subagent:
		r.doubt("the agent starts another, of which nothing is told or asked any more")
	}
	r.expect(ok, name)
	switch m {
	case dialect.Path, dialect.PatchedNames, dialect.PatchedFiles, dialect.Commands: // read by the caller
	default:
		if !ok {
			r.inside(v, depth)
		}
	}
}

// unknown reads a value with an unknown meaning. Numbers, false and empty values name nothing.
func (r *reader) unknown(name string, v []byte, depth int) {
	if isEmptyValue(v) {
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

// inside searches a value at any depth for names: texts may be patches, file URLs, paths, or nested JSON.
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

// isEmptyValue reports whether a value is empty, so that it names nothing under any meaning.
func isEmptyValue(v []byte) bool {
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

// certainPath reports whether a value can only be a path.
func certainPath(v []byte) bool {
	s, ok := acp.Exact(v)
	return ok && !strings.ContainsAny(s, "\n\r") &&
		(path.IsAbs(s) || strings.HasPrefix(s, "./") || strings.HasPrefix(s, "../") || hasScheme(s, "file"))
}

// files reads a path, a list of paths, or a list of objects with paths.
func (r *reader) files(v []byte, depth int) bool {
	one := func(v []byte) bool {
		p, ok := acp.Exact(v)
		switch {
		case !ok || isJSON(p): // some tools send a list encoded as text
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

// nested reads an object, or a list of objects, whose members have the same meanings as those of the input.
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

// saying reads a text or a note, or a list of them. Other values are unclear.
func (r *reader) saying(m dialect.Meaning, name string, v []byte, depth int) {
	say := func(v []byte) {
		if v[0] == '{' || v[0] == '[' {
			r.unknown(name, v, depth)
		} else if s, ok := acp.String(v); ok && s != "" && m != dialect.Note {
			r.texts = append(r.texts, s)
			r.writes = r.writes || m == dialect.Written
		}
	}
	if v[0] != '[' {
		say(v)
		return
	}
	r.expectList(acp.Elements(v, func(e []byte) bool { say(e); return true }))
}

// addresses reads an address, or a list of addresses.
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
		case hasScheme(s, "http"), hasScheme(s, "https"):
			r.addressed = true
		case !strings.Contains(s, ":") && strings.Trim(s[:1], "/.~") != "":
			if r.addressed = true; r.kind != "fetch" { // for a tool that works on files, the value may be a file
				r.paths = append(r.paths, s)
			}
		default:
			ok = false
		}
	}
	return ok
}

// patterns reads patterns to search for below a folder. A pattern that leads out of the folder names other folders.
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
