package kernel

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/paths"
)

// Placeholders in a word of a program that an agent starts for itself.
const (
	inState = "{state}" // an absolute path below one of the agent's own folders
	inRoot  = "{root}"  // an absolute path in a root of the agent's sessions
	anyRest = "..."     // as the last word: any number of further words
)

// fits are the patterns of placeholders within a word. They exclude characters that are special in shells and lists.
var fits = map[string]string{
	inState:    `(/[A-Za-z0-9/._+~@-]+)`,
	inRoot:     `(/[A-Za-z0-9/._+~@-]+)`,
	"{object}": `[0-9a-f]{40}(?:[0-9a-f]{24})?`,
	"{number}": `[0-9]+`,
	"{name}":   `[A-Za-z0-9._-]+`,
	"{file}":   `[^\x00]+`,
}

var placeholder = lazyregexp.New(`\{[a-z]+\}`)

// program describes a program that an agent starts for itself.
type program struct {
	env  map[string]word // variables that must be set
	args []word
	rest bool
}

// word is a word of a program's command line.
type word struct {
	text  string             // literal text, if form is nil
	form  *lazyregexp.Regexp // pattern, if the word has placeholders
	paths []string           // the kind of path of each group of form: inState, inRoot
}

// CheckStart returns the error in the description of a program that an agent starts for itself; empty: it is valid. The description is the
// program's name and its arguments, each a word, after variables that must be set ("NAME=VALUE"). In words, {state} is an absolute path
// below one of the agent's own folders, {root} an absolute path in a root, {object} a git object name, {number} a number, {name} a name,
// and {file} any text. If the last word is "...", any further words may follow.
func CheckStart(words []string) string {
	p, ok := parseStart(words)
	switch {
	case !ok:
		return "expected words with placeholders of {state}, {root}, {object}, {number}, {name} and {file} alone"
	case len(p.args) == 0 || strings.ContainsAny(words[len(p.env)], "/{"):
		return "expected a program by its name, behind variables of the form NAME=VALUE"
	case len(p.args) == 1 && p.rest:
		return `expected arguments before "..."`
	}
	return ""
}

func parseStart(words []string) (p program, ok bool) {
	p.env = map[string]word{}
	for i, text := range words {
		name, value, assigns := strings.Cut(text, "=")
		assigns = assigns && len(p.args) == 0 && variableName.MatchString(name)
		if assigns {
			text = value
		}
		if text == anyRest && i == len(words)-1 {
			p.rest = true
			continue
		}
		w, ok := parseWord(text)
		switch {
		case !ok:
			return p, false
		case assigns:
			p.env[name] = w
		default:
			p.args = append(p.args, w)
		}
	}
	return p, true
}

var variableName = lazyregexp.New(`^[A-Z_]+$`)

func parseWord(text string) (w word, ok bool) {
	if !strings.ContainsAny(text, "{}") {
		return word{text: text}, true
	}
	whole, form := text, `^`
	for name := placeholder.FindString(text); name != ""; name = placeholder.FindString(text) {
		before, behind, _ := strings.Cut(text, name)
		fit, known := fits[name]
		if !known {
			return w, false
		}
		if name == inState || name == inRoot {
			if whole == name { // no other program parses a word that is only a path
				fit = `(/[^\x00]+)`
			}
			w.paths = append(w.paths, name)
		}
		form, text = form+regexp.QuoteMeta(before)+fit, behind
	}
	w.form = lazyregexp.New(form + regexp.QuoteMeta(text) + `$`)
	return w, !strings.ContainsAny(text, "{}")
}

// Starts reports whether an agent is known to start a program for itself with exactly these arguments. args[0] is the program's name, if
// the name resolves to the program. env are the variables that are set and not known to be harmless. The program is then started as part of
// the agent: its changes and starts are decided like the agent's.
func (o *Own) Starts(args, env, roots []string) bool {
	if o == nil || len(args) == 0 {
		return false
	}
	return slices.ContainsFunc(o.starts, func(p program) bool {
		if len(args) < len(p.args) || len(args) > len(p.args) && !p.rest || len(env) != len(p.env) {
			return false
		}
		for i, w := range p.args {
			if !o.fits(w, args[i], roots) {
				return false
			}
		}
		for name, w := range p.env {
			if !slices.ContainsFunc(env, func(entry string) bool {
				value, ok := strings.CutPrefix(entry, name+"=")
				return ok && o.fits(w, value, roots)
			}) {
				return false
			}
		}
		return true
	})
}

// fits reports whether a word of a command line matches the expected word.
func (o *Own) fits(w word, text string, roots []string) bool {
	if w.form == nil {
		return w.text == text
	}
	groups := w.form.FindStringSubmatch(text)
	if groups == nil {
		return false
	}
	for i, want := range w.paths {
		path := groups[i+1]
		real := paths.Real(path)
		inside := want == inState && slices.ContainsFunc(o.folders, func(f string) bool { return f != real && paths.Below(f, real) }) ||
			want == inRoot && slices.ContainsFunc(roots, func(root string) bool { return paths.Below(paths.Real(root), real) })
		if !inside || filepath.Clean(path) != path {
			return false
		}
	}
	return true
}
