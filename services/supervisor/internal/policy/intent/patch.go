package intent

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Changes that a patch makes in addition to edits of files; each kind of patch may report them.
const (
	deletes = "the patch deletes a file"
	moves   = "the patch moves a file"
	// makesLink and twoNames are doubts, too.
	makesLink = "the patch makes a symbolic link"
	twoNames  = "the patch has a header with two names"
)

// patchFiles are the changes that a patch in a text makes.
type patchFiles struct {
	paths  []string
	doubts []string
	// applied: it is in the form of apply_patch.
	applied bool
}

// found reports whether the text is a patch.
func (p *patchFiles) found() bool { return p.applied || len(p.paths)+len(p.doubts) > 0 }

func (p *patchFiles) add(file string) {
	if file != "" {
		p.paths = append(p.paths, file)
	}
}

// The lines of an apply_patch text that name a file.
var patchMarks = [...]struct{ mark, doubt string }{
	{"*** Add File:", ""}, {"*** Update File:", ""}, {"*** Delete File:", deletes}, {"*** Move to:", moves},
}

// patchWords: every patch contains at least one of them.
var patchWords = []string{"*** ", "--- ", "+++ ", "diff --git ", "rename ", "Index: "}

// readPatch finds the files of a patch: a unified diff with git's extensions, a context diff, or the form of
// apply_patch. Programs differ in how they treat line ends and blanks before a mark, so every possible mark is read as
// one. The content lines of a patch cannot be marks, because they begin with "+", "-" or a blank.
func readPatch(s string) (p patchFiles) {
	if !slices.ContainsFunc(patchWords, func(word string) bool { return strings.Contains(s, word) }) {
		return p
	}
	lines := strings.FieldsFunc(s, func(c rune) bool {
		return strings.ContainsRune("\n\r\v\f\x1c\x1d\x1e\u0085\u2028\u2029", c)
	})
	for i, line := range lines {
		next := ""
		if i+1 < len(lines) {
			next = lines[i+1]
		}
		if i > 0 && strings.HasPrefix(line, "+++ ") && strings.HasPrefix(lines[i-1], "--- ") {
			continue // read together with the previous line
		}
		p.line(line, next)
	}
	return p
}

// line reads one line of a patch.
func (p *patchFiles) line(line, next string) {
	trimmed := strings.TrimSpace(line)
	if strings.HasPrefix(trimmed, "*** ") {
		for _, m := range patchMarks {
			if file, ok := strings.CutPrefix(trimmed, m.mark); ok {
				p.applied = true
				p.add(strings.TrimSpace(file))
				if m.doubt != "" {
					p.doubts = append(p.doubts, m.doubt)
				}
				return
			}
		}
		p.applied = p.applied || trimmed == "*** Begin Patch"
		if made, isContext := strings.CutPrefix(next, "--- "); isContext { // a context diff
			p.pair(trimmed[len("*** "):], made)
		}
		return
	}
	old, isOld := strings.CutPrefix(line, "--- ")
	made, isMade := strings.CutPrefix(next, "+++ ")
	switch {
	case isOld && isMade:
		p.pair(old, made)
	case (isOld || strings.HasPrefix(line, "+++ ")) && strings.HasPrefix(next, "@@"): // some programs accept one name
		p.add(p.name(line[len("+++ "):]))
	case strings.HasPrefix(line, "Index: "):
		p.add(p.name(line[len("Index: "):]))
	case strings.HasPrefix(line, "diff --git "):
		p.git(line[len("diff --git "):])
	case strings.HasPrefix(line, "deleted file mode "):
		p.doubts = append(p.doubts, deletes)
	case strings.HasPrefix(line, "new file mode 12"):
		p.doubts = append(p.doubts, makesLink)
	default:
		for _, mark := range [...]string{"rename from ", "rename to ", "copy to "} {
			if file, ok := strings.CutPrefix(line, mark); ok {
				p.add(p.unquoted(file))
				if mark != "copy to " {
					p.doubts = append(p.doubts, moves)
				}
			}
		}
	}
}

// pair reads the two names of a file, before and after.
func (p *patchFiles) pair(old, made string) {
	old, made = p.name(old), p.name(made)
	if made == "/dev/null" {
		p.doubts = append(p.doubts, deletes)
	}
	o, fromA := strings.CutPrefix(old, "a/")
	m, toB := strings.CutPrefix(made, "b/")
	if (fromA || old == "/dev/null") && (toB || made == "/dev/null") && (fromA || toB) {
		old, made = o, m
	}
	for _, file := range [...]string{old, made} {
		if file != "/dev/null" {
			p.add(file)
		}
	}
}

// name returns a file's name in a header, without the timestamp after it.
func (p *patchFiles) name(s string) string {
	s, _, _ = strings.Cut(s, "\t")
	return p.unquoted(strings.TrimRight(s, " "))
}

// unquoted returns a name that is not in quotes. Names in quotes have escapes, which are not parsed.
func (p *patchFiles) unquoted(s string) string {
	if strings.HasPrefix(s, `"`) {
		p.doubts = append(p.doubts, "the patch has the name of a file in quotes")
		return ""
	}
	return s
}

// git reads the names in git's header, "a/x b/x". The header is the only line of an empty file, of a binary file and of
// a changed mode.
func (p *patchFiles) git(s string) {
	s = strings.TrimRight(s, " ")
	half := len(s) / 2
	if len(s)%2 == 1 && s[half] == ' ' && strings.HasPrefix(s, "a/") && s[half+1:half+3] == "b/" && s[2:half] == s[half+3:] {
		p.add(s[2:half])
		return
	}
	p.doubts = append(p.doubts, twoNames)
}

// patchText reads a member that is a patch. A patch without a name is for the file that is named beside it.
func (r *reader) patchText(v []byte) bool {
	s, ok := acp.Exact(v)
	if !ok {
		return false
	}
	r.addPatch(readPatch(s))
	return true
}

func (r *reader) addPatch(p patchFiles) {
	r.paths = append(r.paths, p.paths...)
	for _, why := range p.doubts {
		r.doubt(why)
	}
	if p.applied && len(p.paths) == 0 {
		r.doubt("the patch names no file")
	}
}

// changes reads an object with file names as keys: {"update": {"move_path": …}} moves a file.
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

// patched adds the files of a patch, as OpenCode lists them. A move or deletion is not an edit, although OpenCode calls
// it one.
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
