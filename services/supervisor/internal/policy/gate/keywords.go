package gate

import (
	"os"
	"os/user"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// maxWords limits the expansions of one word, and maxEntries the file names that a command's patterns are compared with. Beyond the
	// limits, the result is unclear.
	maxWords   = 64
	maxEntries = 4096
	// maxSpelled limits the paths that words of a command may spell in addition to themselves.
	maxSpelled = 4096
	// anything is a placeholder in a word for text that is only known when the command runs.
	anything = '\x00'
)

// keyReading is the state of the search for protected files in one command line.
type keyReading struct {
	g       Sight
	roots   []string
	vars    map[string][]string // values of variables in the command's environment and line
	seen    map[string]bool     // checked words, with their folders
	spelled int                 // remaining spelled paths
	entries int                 // remaining file names
	dots    bool                // patterns may match names that begin with a dot
	depth   int                 // nesting of variables in values of variables
	lost    bool                // the line changed to a folder that is only known when it runs
	unclear bool                // a word may or may not be a key file
}

func (g Sight) readKeys(c *permissionv1.Command, roots []string) *keyReading {
	k := &keyReading{g: g, roots: roots, vars: map[string][]string{}, seen: map[string]bool{}, spelled: maxSpelled, entries: maxEntries, dots: strings.Contains(c.GetText(), "glob")}
	for _, entry := range c.GetEnv() {
		k.set(entry)
	}
	for _, sub := range c.GetSubCommands() {
		for _, entry := range sub.GetAssignments() {
			k.set(entry)
		}
	}
	return k
}

// set records a variable's value. The value of a loop variable is a list.
func (k *keyReading) set(entry string) {
	name, value, ok := strings.Cut(entry, "=")
	if !ok || len(k.vars[name]) >= maxWords {
		return
	}
	k.vars[name] = append(k.vars[name], value)
	if fields := strings.Fields(value); len(fields) > 1 {
		k.vars[name] = append(k.vars[name], fields[:min(len(fields), maxWords)]...)
	}
}

// expand returns the expansions of a word by a shell in a folder. The rune anything replaces parts that are only known when the command
// runs.
func (k *keyReading) expand(word string, in place) []string {
	all := expandBraces(plainPattern(word))
	var out []string
	for _, w := range all {
		for _, w := range k.expandHome(w, in) {
			out = append(out, k.expandVariables(w, in)...)
		}
		if len(out) > maxWords {
			k.unclear = true
			return out[:maxWords]
		}
	}
	return out
}

// extended matches patterns of extglob in bash, which zsh and ksh always support.
var extended = lazyregexp.New(`[?*+@!]\([^()]*\)`)

// plainPattern replaces such patterns by wider ones.
func plainPattern(word string) string {
	for range 8 {
		plain := extended.ReplaceAllString(word, "*")
		if plain == word {
			break
		}
		word = plain
	}
	return word
}

// expandBraces expands "{a,b}". A range, or too many alternatives, becomes "*".
func expandBraces(word string) []string {
	out := []string{word}
	for range 8 {
		var next []string
		changed := false
		for _, w := range out {
			open, alternatives, after := brace(w)
			if alternatives == nil {
				next = append(next, w)
				continue
			}
			changed = true
			for _, a := range alternatives {
				next = append(next, w[:open]+a+after)
			}
		}
		if !changed {
			return out
		}
		if len(next) > maxWords {
			return []string{anyBraces.ReplaceAllString(word, "*")}
		}
		out = next
	}
	return out
}

var anyBraces = lazyregexp.New(`\{.*\}`)

// brace finds the first brace expansion of a word: its start, its alternatives, and the text after it.
func brace(w string) (open int, alternatives []string, after string) {
	for open := range len(w) {
		if w[open] != '{' || open > 0 && w[open-1] == '$' {
			continue
		}
		parts, end := alternativesAt(w, open)
		switch {
		case end < 0:
		case len(parts) > 1:
			return open, parts, w[end+1:]
		case strings.Contains(parts[0], ".."):
			return open, []string{"*"}, w[end+1:]
		}
	}
	return 0, nil, ""
}

// alternativesAt returns the parts between commas in the braces that begin at open, and the index of the closing brace; -1: none.
func alternativesAt(w string, open int) (parts []string, end int) {
	depth, start := 0, open+1
	for i := open; i < len(w); i++ {
		switch w[i] {
		case '{':
			depth++
		case '}':
			depth--
		}
		switch {
		case depth == 0:
			return append(parts, w[start:i]), i
		case depth == 1 && w[i] == ',':
			parts, start = append(parts, w[start:i]), i+1
		}
	}
	return nil, -1
}

// expandHome expands "~", "~+", "~-" and "~user" at the beginning of a word, and after "=".
func (k *keyReading) expandHome(w string, in place) []string {
	at := 0
	if !strings.HasPrefix(w, "~") {
		if at = strings.Index(w, "=~") + 1; at == 0 {
			return []string{w}
		}
	}
	name, rest, slash := strings.Cut(w[at+1:], "/")
	if slash {
		rest = "/" + rest
	}
	var homes []string
	switch name {
	case "":
		homes = k.variable("HOME", in)
	case "+":
		homes = []string{in.dir}
	case "-":
		homes = []string{string(anything)}
	default:
		if u, err := user.Lookup(name); err == nil {
			homes = []string{u.HomeDir}
		} else {
			return []string{w}
		}
	}
	var out []string
	for _, home := range homes {
		out = append(out, w[:at]+home+rest)
	}
	return out
}

// variable returns the possible values of a variable; an unknown one may be anything.
func (k *keyReading) variable(name string, in place) []string {
	var values []string
	if k.depth++; k.depth <= 3 {
		for _, v := range k.vars[name] {
			values = append(values, k.expand(v, in)...)
		}
	}
	k.depth--
	switch {
	case name == "PWD":
		values = append(values, in.dir)
	case len(values) == 0 || name == "HOME":
		if value, ok := os.LookupEnv(name); ok {
			values = append(values, value)
		}
	}
	if len(values) == 0 {
		values = []string{string(anything)}
	}
	return values
}

// expandVariables replaces variables by their values. Command substitutions may be anything, except "pwd".
func (k *keyReading) expandVariables(w string, in place) []string {
	at := strings.IndexAny(w, "$`")
	if at < 0 {
		return []string{w}
	}
	before, after := w[:at], ""
	values := []string{string(anything)}
	switch rest := w[at+1:]; {
	case w[at] == '`':
		inner, behind, ok := strings.Cut(rest, "`")
		if ok && strings.TrimSpace(inner) == "pwd" {
			values = []string{in.dir}
		}
		after = behind
	case strings.HasPrefix(rest, "("):
		inner, behind := enclosed(rest, '(', ')')
		if strings.TrimSpace(inner) == "pwd" {
			values = []string{in.dir}
		}
		after = behind
	case strings.HasPrefix(rest, "{"):
		inner, behind := enclosed(rest, '{', '}')
		if after = behind; plainName.FindString(inner) == inner && inner != "" {
			values = k.variable(inner, in)
		}
	default:
		if name := plainName.FindString(rest); name != "" {
			values, after = k.variable(name, in), rest[len(name):]
		} else if rest != "" {
			after = rest[1:]
		}
	}
	var out []string
	for _, behind := range k.expandVariables(after, in) {
		for _, v := range values {
			if out = append(out, before+v+behind); len(out) > maxWords {
				k.unclear = true
				return out
			}
		}
	}
	return out
}

var plainName = lazyregexp.New(`^[A-Za-z_][A-Za-z0-9_]*`)

// enclosed returns the text between the bracket at the start of s and its closing bracket, and the text after that.
func enclosed(s string, open, end byte) (inner, after string) {
	depth := 0
	for i := range len(s) {
		switch s[i] {
		case open:
			depth++
		case end:
			if depth--; depth == 0 {
				return s[1:i], s[i+1:]
			}
		}
	}
	return s[1:], ""
}

// word returns the protected path that a word of a command may expand to.
func (k *keyReading) word(w string, in place) string {
	for _, m := range k.expand(w, in) {
		if k.lost && !strings.HasPrefix(m, "/") && !strings.HasPrefix(m, "-") {
			k.unclear = k.unclear || k.mayBeKey(string(anything)+"/"+m, in)
		}
		if strings.ContainsRune(m, anything) {
			k.unclear = k.unclear || k.mayBeKey(m, in)
			continue
		}
		if p := k.protectedWord(m, in); p != "" {
			return p
		}
		for _, behind := range valuesOf(m) {
			if strings.ContainsAny(behind, "*?[") {
				if p := k.matches(behind, in); p != "" {
					return p
				}
			}
		}
	}
	return ""
}

// valuesOf returns a word and the paths that it may spell.
func valuesOf(word string) []string {
	spelled, _ := shell.Spellings(word, false)
	if slices.Contains(spelled, word) {
		return spelled
	}
	return append(spelled, word)
}

// files returns the protected path among the redirections of a line whose names are only known when it runs. Commands do not contain the
// text of these.
func (k *keyReading) files(c *permissionv1.Command, dirs []place) string {
	if !slices.ContainsFunc(c.GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		return slices.ContainsFunc(sub.GetRedirections(), func(r *permissionv1.Redirection) bool { return r.GetDynamic() })
	}) {
		return ""
	}
	commands, _ := shell.Layout(c.GetText())
	for _, simple := range commands {
		for _, file := range simple.Files {
			for _, dir := range dirs {
				if p := k.word(file.Text, dir); file.Dynamic && p != "" {
					return p
				}
			}
		}
	}
	return ""
}
