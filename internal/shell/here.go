package shell

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Limits of the expansion of one line. Words beyond them count as known only at run time.
const (
	maxExpanded = 1000    // words of patterns
	maxEntries  = 10_000  // names in folders
	maxLooks    = 200_000 // matches of a name with a pattern, and file lookups
	maxFilled   = 1 << 20 // bytes of expanded values
	maxFolded   = 20_000  // expanded words
	maxTurns    = 256     // iterations of all loops
	maxUnrolled = 64      // iterations of one loop
	maxForks    = 3       // cd commands that may fail
	maxPiped    = 20      // parts of a pipe whose output is computed
	maxNested   = 3       // nested substitutions whose output is computed
)

// Here is a folder of this machine in which a line runs, by a shell that sees the same files as this process. The zero
// value has no folder, and expands nothing. A folder that does not exist counts as unknown. For one line, at most 1000
// words and 10,000 names are read, all below Dir.
type Here struct {
	// Dir is absolute and clean.
	Dir string
	// Seen caches the lookups of the decision that the line belongs to; nil: everything is read anew.
	Seen *paths.Cache
}

// disk is the known state of the folder in which a line runs. Both readings of a line use the state of the first
// lookup.
type disk struct {
	dir     string
	real    bool // dir contains no symbolic link, so the shell's PWD equals it
	entries int  // remaining names
	words   int  // remaining words
	looks   int  // remaining lookups
	folders map[string][]string
	index   []string // the files that the repository tracks
	indexed bool     // index has been read
}

func (h Here) disk() *disk {
	if !path.IsAbs(h.Dir) || path.Clean(h.Dir) != h.Dir {
		return nil
	}
	real, ok := h.Seen.Existing(h.Dir)
	if !ok || h.Seen.NoFolder(real) {
		return nil
	}
	return &disk{dir: h.Dir, real: real == h.Dir, entries: maxEntries, words: 2 * maxExpanded, looks: maxLooks, folders: map[string][]string{}}
}

// countLookup counts a lookup, and reports whether the limit allows it.
func (d *disk) countLookup() bool {
	d.looks--
	return d.looks >= 0
}

// tooMuch disables expansion for a line above the limits.
func (r *reading) tooMuch() bool {
	r.lost = r.lost || r.filled > maxFilled || r.words > maxFolded
	return r.lost
}

func isFolder(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.IsDir()
}

// names returns the names in a folder, in the order of their bytes; false if they are unknown.
func (d *disk) names(dir string) ([]string, bool) {
	names, seen := d.folders[dir]
	if seen {
		return names, names != nil
	}
	d.folders[dir] = nil
	f, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		d.folders[dir] = []string{}
		return nil, true
	}
	if err != nil {
		return nil, false
	}
	defer f.Close()
	names, err = f.Readdirnames(d.entries + 1)
	if len(names) > d.entries || err != nil && !errors.Is(err, io.EOF) {
		return nil, false
	}
	d.entries -= len(names)
	slices.Sort(names)
	d.folders[dir] = append([]string{}, names...)
	return d.folders[dir], true
}

// absolute returns the path that a program in a place would open for a name; false if it is not below the known folder.
// Paths outside are not read: no rule that depends on the folder allows them.
func (d *disk) absolute(at place, name string) (string, bool) {
	if at.unknown || at.gone {
		return "", false
	}
	if !path.IsAbs(name) {
		dir := at.path
		if !path.IsAbs(dir) {
			dir = d.dir + "/" + dir
		}
		name = dir + "/" + name
	}
	return name, below(d.dir, path.Clean(name)) // not cleaned: after a symbolic link, ".." is another folder
}

// quiet are builtins and programs that change no file with any arguments. "sleep" is not included: it waits for changes
// by others, such as an agent that creates a file with the name of an option.
var quiet = wordset.Of("cd pushd popd : true false echo printf test [ [[ exit return break continue pwd set command read export")

// still reports whether a simple command certainly changes no file.
func still(sub *permissionv1.SubCommand) bool {
	for _, r := range sub.GetRedirections() {
		if r.GetDynamic() || r.GetOperator() != "<" && r.GetPath() != "/dev/null" {
			return false
		}
	}
	argv := sub.GetArgv()
	switch {
	case slices.ContainsFunc(sub.GetWrappers(), func(w string) bool { return !calm[w] }):
		return false
	case len(argv) == 0, quiet[argv[0]] && !DynamicWord(sub, 0):
		return true
	case sub.GetDynamic(), slices.ContainsFunc(sub.GetAssignments(), harmful):
		return false
	}
	_, reads := Generalisable(argv)
	return reads
}

func harmful(entry string) bool { return !HarmlessVariable(entry) }

// calm are wrappers that change no file besides the wrapped command.
var calm = map[string]bool{"sh -c": true, "bash -c": true, "dash -c": true, "time": true, "timeout": true, "nice": true,
	"stdbuf": true, "env": true, "xargs": true, "find -exec": true}

// Variables of a shell.

// changers are builtins that may change variables, the meaning of words, or the input, in ways that are not tracked
// here.
var changers = wordset.Of(`eval . source read mapfile readarray getopts unset let export readonly declare typeset local shopt trap
	exec builtin alias unalias hash enable bind complete compgen compopt fc zmodload coproc function select emulate setopt unsetopt
	noglob nocorrect vared print autoload wait shift getln`)

// variables are the variables that a line assigns.
type variables struct {
	assigned map[string]int // number of assignments
	values   map[string]word
	uses     map[string][]*syntax.ParamExp
	known    map[*syntax.ParamExp]bool             // uses of variables; true if the value was known each time
	bound    map[string][]*permissionv1.SubCommand // assignments with known values
	splits   map[*syntax.Assign]bool               // assignments of IFS for one read
	texts    map[string]bool                       // variables that contain text
	numbers  map[string]bool                       // variables that contain numbers
}

// follow reports whether all effects of a line on its shell are tracked: nothing in it changes the meaning of patterns,
// and variables change only by assignments and loops. If not, nothing is expanded.
func (w *walker) follow(file *syntax.File) bool {
	v := &variables{assigned: map[string]int{}, values: map[string]word{}, uses: map[string][]*syntax.ParamExp{},
		known: map[*syntax.ParamExp]bool{}, bound: map[string][]*permissionv1.SubCommand{}, splits: map[*syntax.Assign]bool{}}
	values := map[string][]*syntax.Word{}
	ok := true
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.Stmt:
			ok = ok && !n.Background && !n.Coprocess && !n.Disown
		case *syntax.FuncDecl, *syntax.CoprocClause, *syntax.LetClause, *syntax.ArithmCmd, *syntax.CStyleLoop, *syntax.ExtGlob:
			ok = false
		case *syntax.DeclClause:
			ok = ok && w.harmlessExport(n)
		case *syntax.ForClause:
			ok = ok && !n.Select
			if loop, is := n.Loop.(*syntax.WordIter); is {
				v.assigned[loop.Name.Value]++
				values[loop.Name.Value] = append(values[loop.Name.Value], w.items(loop.Items)...)
				ok = ok && OwnVariable(loop.Name.Value)
			}
		case *syntax.Redirect:
			ok = ok && (n.N == nil || !strings.HasPrefix(n.N.Value, "{"))
		case *syntax.Assign:
			ok = ok && (v.splits[n] || w.harmlessAssignment(n))
			if n.Name != nil {
				v.assigned[n.Name.Value]++
				values[n.Name.Value] = append(values[n.Name.Value], n.Value)
			}
		case *syntax.ParamExp:
			if n.Param != nil {
				v.uses[n.Param.Value] = append(v.uses[n.Param.Value], n)
			}
			ok = ok && (n.Exp == nil || n.Exp.Op != syntax.AssignUnset && n.Exp.Op != syntax.AssignUnsetOrNull)
		case *syntax.CallExpr:
			ok = ok && w.followsCall(n, v, values)
		}
		return ok
	})
	if w.variables = v; ok {
		w.classify(values)
	}
	return ok
}

// items returns the values of a loop's variable; a value that is split, or is a pattern, becomes an unknown value.
func (w *walker) items(items []*syntax.Word) []*syntax.Word {
	values := make([]*syntax.Word, len(items))
	for i, item := range items {
		values[i] = item
		for _, part := range item.Parts {
			if lit, ok := part.(*syntax.Lit); ok && strings.ContainsAny(lit.Value, "*?[{~") || !ok && !isQuoted(part) {
				values[i] = unknownValue
			}
		}
	}
	return values
}

// unknownValue is a word without a known value.
var unknownValue = &syntax.Word{Parts: []syntax.WordPart{&syntax.SglQuoted{Dollar: true}}}

func isQuoted(part syntax.WordPart) bool {
	switch part.(type) {
	case *syntax.DblQuoted, *syntax.SglQuoted:
		return true
	}
	return false
}

// harmlessExport reports whether a declaration only exports variables that certainly have no effect.
func (w *walker) harmlessExport(n *syntax.DeclClause) bool {
	return n.Variant.Value == "export" && len(n.Args) > 0 && !slices.ContainsFunc(n.Args, func(a *syntax.Assign) bool {
		return a.Naked || a.Name == nil || OwnVariable(a.Name.Value) || !w.harmlessAssignment(a)
	})
}

// OnlyReads reports whether argv is the builtin read, and certainly only sets variables of the script.
func OnlyReads(argv []string) bool {
	_, _, ok := readNames(argv)
	return ok
}

// readNames returns the variables that "read" sets, if it certainly has no other effect. zero: it reads up to a NUL.
func readNames(argv []string) (names []string, zero, ok bool) {
	if len(argv) == 0 || argv[0] != "read" {
		return nil, false, false
	}
	args := argv[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch {
		case args[0] == "-r":
			args = args[1:]
		case args[0] == "-d" && len(args) > 1 && args[1] == "":
			zero, args = true, args[2:]
		default:
			return nil, false, false
		}
	}
	return args, zero, len(args) > 0 && !slices.ContainsFunc(args, func(name string) bool { return !OwnVariable(name) })
}

// harmlessAssignment reports whether an assignment is to a variable of the script, or certainly has no effect.
func (w *walker) harmlessAssignment(a *syntax.Assign) bool {
	if a.Name == nil || a.Index != nil || a.Array != nil || a.Append {
		return false
	}
	if OwnVariable(a.Name.Value) {
		return true
	}
	value := (&walker{reading: newReading(w.grammar), source: w.source, grammar: w.grammar}).word(a.Value)
	return !value.dynamic && HarmlessVariable(a.Name.Value+"="+value.text)
}

// followsCall reports whether the effects of a simple command on the shell are known.
func (w *walker) followsCall(n *syntax.CallExpr, v *variables, values map[string][]*syntax.Word) bool {
	if len(n.Args) == 0 {
		return true
	}
	plain := walker{reading: newReading(w.grammar), source: w.source, grammar: w.grammar}
	words := make([]word, len(n.Args))
	for i, arg := range n.Args {
		words[i] = plain.word(arg)
	}
	first := word{text: "-"}
	if len(words) > 1 {
		first = words[1]
	}
	switch name := words[0].text; {
	case words[0].dynamic:
		return false
	case name == "read":
		names, _, ok := readNames(texts(words))
		for _, name := range names {
			v.assigned[name]++
			values[name] = append(values[name], nil)
		}
		for _, a := range n.Assigns {
			v.splits[a] = ok && a.Name != nil && a.Name.Value == "IFS" && a.Index == nil && a.Array == nil && !a.Append &&
				!plain.word(a.Value).dynamic
		}
		return ok && !someDynamic(words)
	case name == "export":
		return false // with an assignment it is a declaration in bash
	case name == "command":
		return !first.dynamic && slices.Contains([]string{"-v", "-V"}, first.text)
	case name == "printf":
		return !first.dynamic && !strings.HasPrefix(first.text, "-")
	case name == "set":
		return !slices.ContainsFunc(words[1:], func(arg word) bool { return !plainSetting(arg) })
	case name == "[[" || name == "test" || name == "[":
		return true
	default:
		return !changers[name]
	}
}

// plainSetting reports whether a word of set is an option that does not change how words are read.
func plainSetting(arg word) bool {
	if arg.dynamic || arg.text == "" {
		return false
	}
	if arg.text[0] == '-' || arg.text[0] == '+' {
		return strings.Trim(arg.text[1:], "euxo") == ""
	}
	return slices.Contains([]string{"errexit", "nounset", "xtrace", "pipefail"}, arg.text)
}

// value returns the value of a plain use of a variable: "$f", "${f}", "$PWD". digits: a variable with a number may stay
// as written.
func (w *walker) value(n *syntax.ParamExp, quoted, digits bool) (string, bool) {
	if w.disk == nil || w.variables == nil || n.Param == nil {
		return "", false
	}
	name := n.Param.Value
	if text := w.text(n); text != "$"+name && text != "${"+name+"}" {
		return "", false // the expansion has an operator
	}
	var value word
	switch v, ok := w.variables.values[name]; {
	case !ok && w.number(name):
		return "$" + name, digits
	case name == "PWD":
		if !w.disk.real || w.dir != (place{}) {
			return "", false
		}
		value.text = w.disk.dir
	case ok:
		value = v
	default:
		return "", false
	}
	if !quoted && (value.text == "" || strings.ContainsAny(value.text, " \t\n*?[\\")) {
		return "", false
	}
	return value.text, true
}

// bind sets the value of a variable from here on, if the line assigns it only once.
func (w *walker) bind(name string, value word) bool {
	if w.variables == nil || w.disk == nil || !OwnVariable(name) || w.variables.assigned[name] != 1 || value.dynamic {
		return false
	}
	w.variables.values[name] = value
	return true
}

// noted records whether a use of a variable was known.
func (w *walker) noted(n *syntax.ParamExp, known bool) {
	if w.variables != nil {
		before, seen := w.variables.known[n]
		w.variables.known[n] = known && (before || !seen)
	}
}

// forget removes the assignments to variables whose uses were all known: their only effect is in argv already.
func (w *walker) forget() {
	forgotten := 0
	for _, subs := range w.variables.bound {
		forgotten += len(subs)
	}
	if forgotten == len(w.subs) {
		return // it has no other content
	}
	for name, subs := range w.variables.bound {
		if slices.ContainsFunc(w.variables.uses[name], func(use *syntax.ParamExp) bool { return !w.variables.known[use] }) {
			continue
		}
		w.subs = slices.DeleteFunc(w.subs, func(sub *permissionv1.SubCommand) bool { return slices.Contains(subs, sub) })
	}
}
