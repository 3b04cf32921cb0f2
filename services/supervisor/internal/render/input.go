package render

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// maxMembers is how many members of a tool's input are shown beside a command or a change.
const maxMembers = 10

// input is what a tool is given, as agents write it.
type input struct {
	command string
	dirs    []string // where the command runs
	rest    []member // all other members, in their order
}

type member struct {
	name   string
	folded string // the name, in whatever way its words are joined
	value  jsontext.Value
}

// text is a member that is a string.
func (m member) text() (text string, ok bool) {
	ok = m.value.Kind() == '"' && json.Unmarshal(m.value, &text, jsontext.AllowInvalidUTF8(true)) == nil
	return text, ok
}

// words are a member that is a list of strings.
func (m member) words() (words []string, ok bool) {
	ok = m.value.Kind() == '[' && json.Unmarshal(m.value, &words, jsontext.AllowInvalidUTF8(true)) == nil
	return words, ok
}

// is reports whether a member has one of some names, which are in small letters.
func (m member) is(names ...string) bool { return slices.Contains(names, m.folded) }

// inputOf reads a tool's input, and reports whether it can be read. The reading is for the eye alone: a strict one would
// refuse what another reader takes. Of members of the same name the last counts, and the others are shown as they are.
func inputOf(raw string) (in input, readable bool) {
	if raw == "" {
		return in, true
	}
	if len(raw) > maxText {
		return in, false
	}
	d := jsontext.NewDecoder(strings.NewReader(raw), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if token, err := d.ReadToken(); err != nil || token.Kind() != '{' {
		return in, false
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return input{}, false
		}
		m := member{name: name.String(), folded: strings.ToLower(strings.ReplaceAll(strings.ReplaceAll(name.String(), "_", ""), "-", ""))}
		value, err := d.ReadValue()
		if err != nil {
			return input{}, false
		}
		m.value = value.Clone()
		in.rest = append(in.rest, m)
	}
	if token, err := d.ReadToken(); err != nil || token.Kind() != '}' {
		return input{}, false
	}
	in.takeCommand()
	return in, true
}

// takeCommand takes the command and where it runs out of the members, in the ways that agents write them.
func (in *input) takeCommand() {
	last := func(name string) int {
		for i := range slices.Backward(in.rest) {
			if in.rest[i].name == name {
				return i
			}
		}
		return -1
	}
	at := last("command")
	if at < 0 {
		at = last("cmd")
	}
	if at < 0 {
		return
	}
	taken := map[int]bool{at: true}
	if text, ok := in.rest[at].text(); ok {
		in.command = text
		if i := last("args"); i >= 0 {
			if words, ok := in.rest[i].words(); ok {
				in.command = strings.Join(append([]string{text}, words...), " ")
				taken[i] = true
			}
		}
	} else if words, ok := in.rest[at].words(); ok {
		in.command = strings.Join(words, " ")
	}
	if in.command == "" {
		return
	}
	var rest []member
	for i, m := range in.rest {
		dir, _ := m.text()
		switch {
		case taken[i]:
		case dir != "" && m.is("cwd", "workdir", "workingdir", "workingdirectory", "directory", "dir"):
			in.dirs = append(in.dirs, dir)
		default:
			rest = append(rest, m)
		}
	}
	in.rest = rest
}

// places are lines that say where the command runs.
func (in *input) places(o Options) []string {
	lines := make([]string, len(in.dirs))
	for i, dir := range in.dirs {
		if i <= maxMembers || o.whole() { // of one that is not shown, no characters are counted
			lines[i] = "in " + o.line(dir, maxRaw)
		}
	}
	return lines
}

// besides is what a question names beside the command, the changes and the texts that it shows: places, and members of the
// tool's input that do not repeat them. Where nothing else is shown, the input stands there as it is, not its members.
func besides(o Options, p *supervisorv1.PermissionQuestion, in input, shown bool) string {
	r := repeats{o: o, title: p.GetTitle(), paths: map[string]bool{}, texts: map[string]bool{}, written: map[string]bool{}}
	for _, item := range p.GetContent() {
		if d := item.GetDiff(); d != nil {
			r.diffs = append(r.diffs, d)
			r.written[d.GetNewText()] = true
			r.paths[o.absolute(d.GetPath())] = true
		} else if c := item.GetContent(); c != nil {
			r.texts[strings.TrimSpace(Content(c))] = true
		}
	}
	var also []string
	name := func(path string) {
		if full := o.absolute(path); !r.paths[full] {
			r.paths[full] = true
			also = append(also, o.path(path))
		}
	}
	at := p.GetLocations()
	if len(r.diffs) > 0 {
		at = nil
		for _, l := range p.GetLocations() {
			if l.Line != nil && r.paths[o.absolute(l.GetPath())] {
				at = append(at, l)
			}
			name(l.GetPath())
		}
	}
	text := locations(o, &supervisorv1.ToolCall{Title: p.GetTitle(), Locations: at})
	var lines []string
	edited := r.edits(in.rest)
	for _, m := range in.rest {
		value, isText := m.text()
		switch {
		case !shown || edited && m.is(oldText, newText) || isText && r.has(m, value):
		case m.harmless(in.command != ""):
			if o.view != nil {
				o.view.hidden.Members++
			}
		case isText && value != "" && len(r.diffs) > 0 && m.is("path", "file", "filepath", "filename", "absolutepath", "notebookpath"):
			name(value)
		default:
			if !isText {
				value = string(m.value)
			}
			line := "" // of one that is not shown, no characters are counted
			if len(lines) <= maxMembers || o.whole() {
				line = o.paint(dim, "with "+o.line(m.name, maxName)+":") + " " + o.line(value, maxRaw)
			}
			lines = append(lines, line)
		}
	}
	return text + places(o, "also names: ", also) + bounded(o, lines, maxMembers)
}

// maxName is how many bytes are shown of a member's name.
const maxName = 80

// What an edit replaces, and by what, as the agents name it.
const oldText, newText = "oldstring", "newstring"

// repeats knows what a question shows. An agent may send many members, contents and lines: each is looked up.
type repeats struct {
	o       Options
	title   string
	diffs   []*supervisorv1.Diff
	paths   map[string]bool // of diffs, and those that were named
	texts   map[string]bool
	written map[string]bool // new texts of diffs
	lines   map[string]bool // of diffs, with their marks; nil: not known yet
}

// harmless reports whether a member changes nothing of what is done, so that nobody must know it.
func (m member) harmless(command bool) bool {
	switch m.value.Kind() {
	case '"':
		return command && m.is("description") // what a model says about the command
	case '0':
		return m.is("timeout", "timeoutms")
	case 'f':
		return m.is("isbackground", "runinbackground", "replaceall")
	}
	return false
}

// has reports whether the text of a member is shown already.
func (r *repeats) has(m member, text string) bool {
	switch {
	case strings.Contains(text, "/") && names(r.title, text): // a path or an address
		return true
	case m.is("content") && r.written[text]:
		return true
	case text != "" && (text == r.title || r.texts[strings.TrimSpace(text)]):
		return true
	}
	return m.is("diff") && r.patch(text)
}

// edits reports whether the text that a tool replaces, and what by, are just what a diff shows.
func (r *repeats) edits(rest []member) bool {
	var texts [2][]string
	for _, m := range rest {
		for i, name := range []string{oldText, newText} {
			if text, ok := m.text(); ok && m.is(name) {
				texts[i] = append(texts[i], text)
			}
		}
	}
	if len(texts[0]) != 1 || len(texts[1]) != 1 || len(r.diffs) != 1 {
		return false
	}
	d, old, text := r.diffs[0], texts[0][0], texts[1][0]
	if len(d.GetOldText())+len(d.GetNewText()) > maxDiffText || len(old)+len(text) > maxText {
		return false
	}
	if old == "" { // a new file
		return d.GetOldText() == "" && d.GetNewText() == text
	}
	return strings.Contains(d.GetOldText(), old) &&
		(strings.Replace(d.GetOldText(), old, text, 1) == d.GetNewText() || replacedAll(d, old, text))
}

// replacedAll reports whether a diff is what becomes of a text where all of old is replaced. The result is built only if it
// has the right size: an agent must not have it grow.
func replacedAll(d *supervisorv1.Diff, old, text string) bool {
	size := len(d.GetOldText()) + strings.Count(d.GetOldText(), old)*(len(text)-len(old))
	return size == len(d.GetNewText()) && strings.ReplaceAll(d.GetOldText(), old, text) == d.GetNewText()
}

// patch reports whether a unified diff has no line that the diffs do not show.
func (r *repeats) patch(text string) bool {
	if r.lines == nil {
		r.lines = map[string]bool{}
		for _, d := range r.diffs {
			for mark, side := range map[string]string{"-": d.GetOldText(), "+": d.GetNewText()} {
				for l := range strings.SplitSeq(side, "\n") {
					r.lines[mark+l], r.lines[" "+l] = true, true
				}
			}
		}
	}
	for l := range strings.SplitSeq(text, "\n") {
		known := l == "" || r.lines[l] || strings.Trim(l, "=") == "" || strings.HasPrefix(l, `\ No newline`)
		for _, head := range []string{"Index: ", "--- ", "+++ "} {
			if path, ok := strings.CutPrefix(l, head); ok {
				known = known || r.paths[r.o.absolute(strings.TrimSpace(path))]
			}
		}
		if at, ok := strings.CutPrefix(l, "@@ "); ok {
			known = known || strings.Trim(at, "-+,0123456789 @") == ""
		}
		if !known {
			return false
		}
	}
	return len(r.diffs) > 0
}

// absolute is a path as paths are compared: clean, and from the working directory on.
func (o Options) absolute(path string) string {
	if o.Cwd != "" && !filepath.IsAbs(path) {
		path = filepath.Join(o.Cwd, path)
	}
	return filepath.Clean(path)
}
