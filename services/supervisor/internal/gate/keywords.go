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
	// maxWords bounds what one word may stand for, and maxEntries how many names of files a command's patterns are held
	// against. What is beyond is not clear.
	maxWords   = 64
	maxEntries = 4096
	// maxSpelled bounds the paths that words of a command may spell beside themselves.
	maxSpelled = 4096
	// anything stands in a word for what is only known when it runs.
	anything = '\x00'
)

// keyReading is the state of looking for files that are kept from agents in one command line.
type keyReading struct {
	g       Sight
	roots   []string
	vars    map[string][]string // what the command and its line say of variables
	seen    map[string]bool     // words that were looked at, with their folders
	spelled int                 // paths that words spell beside themselves and that may be looked at yet
	entries int                 // names that may be looked at yet
	dots    bool                // patterns may stand for names that begin with a dot
	depth   int                 // variables in the values of variables
	lost    bool                // the line went to a folder that is only known when it runs
	unclear bool                // a word may stand for a key file, or not
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

// set notes a variable's value; that of a loop is a list.
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

// meant returns what a word may stand for after a shell has read it in a folder. A part that is only known when the command
// runs is written as anything.
func (k *keyReading) meant(word string, in place) []string {
	all := braced(plainPattern(word))
	var out []string
	for _, w := range all {
		for _, w := range k.homed(w, in) {
			out = append(out, k.filled(w, in)...)
		}
		if len(out) > maxWords {
			k.unclear = true
			return out[:maxWords]
		}
	}
	return out
}

// extended is a pattern that bash knows with extglob, and zsh and ksh always.
var extended = lazyregexp.New(`[?*+@!]\([^()]*\)`)

// plainPattern makes such patterns ones that stand for more.
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

// braced expands "{a,b}"; a range stands for any characters. What has too many alternatives does so too.
func braced(word string) []string {
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

// brace finds the first brace expansion of a word: where it begins, its alternatives, and what is behind it.
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

// alternativesAt are what stands between commas in the braces that begin at open, and where these end; -1: nowhere.
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

// homed expands "~" and its like at the beginning of a word, and behind "=" and ":".
func (k *keyReading) homed(w string, in place) []string {
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

// variable is what a variable may hold; one that nobody knows may hold anything.
func (k *keyReading) variable(name string, in place) []string {
	var values []string
	if k.depth++; k.depth <= 3 {
		for _, v := range k.vars[name] {
			values = append(values, k.meant(v, in)...)
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

// filled puts what variables hold in their places; substitutions may be anything but for "pwd".
func (k *keyReading) filled(w string, in place) []string {
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
	for _, behind := range k.filled(after, in) {
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

// enclosed is what stands between the bracket that s begins with and its end, and what is behind that.
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

// word returns what is kept from agents that a word of a command may stand for, as a shell reads it.
func (k *keyReading) word(w string, in place) string {
	for _, m := range k.meant(w, in) {
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

// valuesOf are a word and the paths that it may spell.
func valuesOf(word string) []string {
	spelled, _ := shell.Spellings(word, false)
	if slices.Contains(spelled, word) {
		return spelled
	}
	return append(spelled, word)
}

// files returns what is kept from agents among the files that a line is redirected from or to by names that are only
// known when it runs: of these a command has no text.
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
