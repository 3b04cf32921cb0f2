package render

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// maxMembers limits the members of a tool's input that are shown beside a command or a change.
const maxMembers = 10

// input is the input of a tool.
type input struct {
	command string
	dirs    []string // working directories of the command
	rest    []member // all other members, in order
}

type member struct {
	name   string
	folded string // the name without case and separators
	value  jsontext.Value
}

// text returns a member that is a string.
func (m member) text() (text string, ok bool) {
	ok = m.value.Kind() == '"' && json.Unmarshal(m.value, &text, jsontext.AllowInvalidUTF8(true)) == nil
	return text, ok
}

// words returns a member that is a list of strings.
func (m member) words() (words []string, ok bool) {
	ok = m.value.Kind() == '[' && json.Unmarshal(m.value, &words, jsontext.AllowInvalidUTF8(true)) == nil
	return words, ok
}

// is reports whether the name of a member is one of names, which are in lower case.
func (m member) is(names ...string) bool { return slices.Contains(names, m.folded) }

// inputOf parses a tool's input, and reports whether it is valid. It is only for display, so it accepts duplicate
// names, which a strict parser would reject: the last one counts, and the others are shown unchanged.
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

// takeCommand removes the command and its directories from the members. It knows the names that agents use.
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

// places returns lines with the directories of the command.
func (in *input) places(o Options) []string {
	lines := make([]string, len(in.dirs))
	for i, dir := range in.dirs {
		if i <= maxMembers || o.whole() { // the characters of omitted entries are not counted
			lines[i] = "in " + o.line(dir, maxRaw)
		}
	}
	return lines
}

// besides returns the parts of a question other than the command, the changes and the texts: places, and members of the
// tool's input that do not repeat them. If the question shows nothing else, besides returns the whole input instead of
// its members.
func besides(o Options, p *supervisorv1.PermissionQuestion, in input, shown bool) string {
	r := shownTexts{o: o, title: p.GetTitle(), paths: map[string]bool{}, texts: map[string]bool{}, written: map[string]bool{}}
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
			line := "" // the characters of omitted entries are not counted
			if len(lines) <= maxMembers || o.whole() {
				line = o.paint(dim, "with "+o.line(m.name, maxName)+":") + " " + o.line(value, maxRaw)
			}
			lines = append(lines, line)
		}
	}
	return text + places(o, "also names: ", also) + bounded(o, lines, maxMembers)
}

// maxName limits the bytes of a member's name.
const maxName = 80

// The folded names of the old and the new text of an edit.
const oldText, newText = "oldstring", "newstring"

// shownTexts finds texts that a question already shows. It uses maps, because an agent may send many members, contents
// and lines.
type shownTexts struct {
	o       Options
	title   string
	diffs   []*supervisorv1.Diff
	paths   map[string]bool // paths of diffs, and paths in the places
	texts   map[string]bool
	written map[string]bool // new texts of diffs
	lines   map[string]bool // lines of diffs, with their signs; nil: not collected yet
}

// harmless reports whether a member does not affect the action, so that it may be omitted.
func (m member) harmless(command bool) bool {
	switch m.value.Kind() {
	case '"':
		return command && m.is("description") // the model's description of the command
	case '0':
		return m.is("timeout", "timeoutms")
	case 'f':
		return m.is("isbackground", "runinbackground", "replaceall")
	}
	return false
}

// has reports whether the text of a member is already shown.
func (r *shownTexts) has(m member, text string) bool {
	switch {
	case strings.Contains(text, "/") && names(r.title, text): // a path or a URL
		return true
	case m.is("content") && r.written[text]:
		return true
	case text != "" && (text == r.title || r.texts[strings.TrimSpace(text)]):
		return true
	}
	return m.is("diff") && r.patch(text)
}

// edits reports whether the old and the new text of a tool are exactly the change in a diff.
func (r *shownTexts) edits(rest []member) bool {
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

// replacedAll reports whether a diff is the replacement of all occurrences of old. It builds the result only if its
// size is right, so that an agent cannot make it grow.
func replacedAll(d *supervisorv1.Diff, old, text string) bool {
	size := len(d.GetOldText()) + strings.Count(d.GetOldText(), old)*(len(text)-len(old))
	return size == len(d.GetNewText()) && strings.ReplaceAll(d.GetOldText(), old, text) == d.GetNewText()
}

// patch reports whether all lines of a unified diff are in the diffs of the question.
func (r *shownTexts) patch(text string) bool {
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

// absolute returns a path for comparisons: clean, and joined with the working directory.
func (o Options) absolute(path string) string {
	if o.Cwd != "" && !filepath.IsAbs(path) {
		path = filepath.Join(o.Cwd, path)
	}
	return filepath.Clean(path)
}
