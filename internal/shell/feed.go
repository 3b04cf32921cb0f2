package shell

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/lazyregexp"
)

// maxAppended is the limit of names that xargs and "find -exec" may add to a command, and maxDepth that of nested
// folders.
const (
	maxAppended = 200
	maxDepth    = 64
)

// feed are the lines that a pipe may contain for xargs: these, or fewer. Each is a plain name.
type feed struct {
	names   []string
	fewer   bool   // some lines may be missing
	zero    bool   // terminated by a NUL
	written string // the command with xargs, as written
}

// lists returns the lines that a statement writes to a pipe, if they are certainly all plain names.
func (w *walker) lists(s *syntax.Stmt) *feed {
	if w.disk == nil || w.stirred > 0 || s.Negated || w.redirected(s) || longPipe(s) {
		return nil
	}
	if pipe, ok := s.Cmd.(*syntax.BinaryCmd); ok && pipe.Op == syntax.Pipe && len(s.Redirs) == 0 {
		f, y := w.lists(pipe.X), w.plainCall(pipe.Y)
		if f == nil || len(y) == 0 || f.zero || !drops(y) || len(pipe.Y.Redirs) > 0 {
			return nil
		}
		f.fewer = f.fewer || y[0] != "sort"
		return f
	}
	args := w.plainCall(s)
	if len(args) == 0 {
		return nil
	}
	f := &feed{}
	ok := false
	switch args[0] {
	case "find":
		if slices.Contains(args, "-exec") || slices.Contains(args, "-follow") {
			return nil // the commands that it runs write, too
		}
		f.zero = slices.Contains(args, "-print0")
		f.names, f.fewer, ok = w.disk.find(args[1:], w.dir)
	case "git":
		f.zero = slices.Contains(args, "-z")
		f.names, f.fewer, ok = w.disk.tracked(args[1:], w.dir)
	case "ls":
		f.names, ok = w.disk.listed(args[1:], w.dir)
	case "grep", "rg":
		f.names, ok = w.disk.matching(args, w.dir)
		f.fewer = true
	case "seq":
		f.names, ok = counted(args[1:])
	}
	if !ok || len(f.names) > maxAppended || slices.ContainsFunc(f.names, func(name string) bool { return !plainName(name) }) {
		return nil
	}
	w.expanded++
	return f
}

// longPipe reports whether a statement is a pipe of more than maxPiped parts. Its output is computed for each part, so
// the time is quadratic.
func longPipe(s *syntax.Stmt) bool {
	for range maxPiped {
		pipe, ok := s.Cmd.(*syntax.BinaryCmd)
		if !ok {
			return false
		}
		s = pipe.X
	}
	return true
}

// redirected reports whether a statement's input or output may be redirected.
func (w *walker) redirected(s *syntax.Stmt) bool {
	return slices.ContainsFunc(s.Redirs, func(r *syntax.Redirect) bool { return !w.silences(r) })
}

// silences reports whether a redirection only discards error messages.
func (w *walker) silences(r *syntax.Redirect) bool {
	return r.N != nil && r.N.Value == "2" && r.Op == syntax.RdrOut && w.word(r.Word) == word{text: "/dev/null"}
}

// plainCall returns the words of a simple command; none if some are known only at run time, or if it is in more than
// maxNested nested substitutions: each level is read in several ways, so the time is exponential.
func (w *walker) plainCall(s *syntax.Stmt) []string {
	cmd, ok := s.Cmd.(*syntax.CallExpr)
	if !ok || len(cmd.Assigns) > 0 || s.Negated || s.Background || w.nested == maxNested {
		return nil
	}
	var c call
	w.nested++
	w.arguments(&c, cmd)
	w.nested--
	words := make([]string, len(c.args))
	for i, arg := range c.args {
		if arg.dynamic {
			return nil
		}
		words[i] = arg.text
	}
	return words
}

// plainName reports whether every program reads a line as that name: it contains nothing that is quoted, split or
// translated.
func plainName(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@+=:,%~#") == ""
}

// drops reports whether a command only writes some lines of its input, unchanged.
func drops(argv []string) bool {
	args := argv[1:]
	switch argv[0] {
	case "head", "tail":
		if len(args) == 2 && args[0] == "-n" {
			args = []string{"-n" + args[1]}
		}
		if len(args) == 0 {
			return true
		}
		count := strings.TrimPrefix(strings.TrimPrefix(args[0], "-n"), "-")
		_, err := strconv.ParseUint(strings.TrimPrefix(count, "+"), 10, 31)
		return len(args) == 1 && args[0][0] == '-' && err == nil
	case "sort", "uniq":
		return len(args) == 0 || argv[0] == "sort" && len(args) == 1 && len(args[0]) > 1 && args[0][0] == '-' &&
			strings.Trim(args[0][1:], "rnufV") == ""
	case "grep":
		patterns := 0
		for _, arg := range args {
			switch {
			case !strings.HasPrefix(arg, "-"):
				patterns++
			case len(arg) < 2 || strings.Trim(arg[1:], "vEFiwx") != "":
				return false
			}
		}
		return patterns == 1
	}
	return false
}

// listed returns the output of ls: its operands that are files, or the names in one folder.
func (d *disk) listed(args []string, at place) ([]string, bool) {
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "-1" })
	if slices.ContainsFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") }) {
		return nil, false
	}
	folder := func(arg string) bool {
		file, ok := d.absolute(at, arg)
		return !ok || isFolder(file)
	}
	if len(args) > 1 || len(args) == 1 && !folder(args[0]) {
		return args, !slices.ContainsFunc(args, folder)
	}
	dir, ok := d.absolute(at, strings.Join(append(args, "."), "/"))
	if !ok {
		return nil, false
	}
	names, ok := d.names(dir)
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name[0] == '.' }), ok
}

// counted returns the output of seq between two numbers.
func counted(args []string) ([]string, bool) {
	first, last := 1, 0
	for i, arg := range args {
		n, err := strconv.Atoi(arg)
		if err != nil || strings.Trim(arg, "0123456789") != "" || len(arg) > 1 && arg[0] == '0' {
			return nil, false
		}
		if last = n; i == 0 && len(args) == 2 {
			first = n
		}
	}
	if len(args) < 1 || len(args) > 2 || last-first >= maxUnrolled {
		return nil, false
	}
	var names []string
	for n := first; n <= last; n++ {
		names = append(names, strconv.Itoa(n))
	}
	return names, true
}

// matching returns the names of files that "grep -rl" or "rg -l" may print: all files below the operands.
func (d *disk) matching(args []string, at place) ([]string, bool) {
	lists, walks, letters := false, false, "rliIwEFPsnHxL"
	var operands, without, included []string
	if args[0] == "rg" { // it skips hidden files
		walks, letters, without = true, "liwFsnHxS", []string{"!", "-path", "*/.git/*"}
	}
	for _, arg := range args[1:] {
		switch folder, excludes := strings.CutPrefix(arg, "--exclude-dir="); {
		case arg == "" || arg == "-":
			return nil, false
		case arg[0] != '-':
			operands = append(operands, arg)
		case excludes && args[0] == "grep" && plainFolder.MatchString(folder):
			without = append(without, "!", "-path", "*/"+folder+"/*")
		case strings.HasPrefix(arg, "--include=") && args[0] == "grep":
			included = append(included, strings.TrimPrefix(arg, "--include="))
		case strings.HasPrefix(arg, "--") || strings.Trim(arg[1:], letters) != "":
			return nil, false
		default:
			lists = lists || strings.ContainsAny(arg, "lL")
			walks = walks || strings.Contains(arg, "r")
		}
	}
	if !lists || !walks || len(operands) == 0 {
		return nil, false
	}
	var only []string
	if len(included) == 1 && plainEnding.MatchString(included[0]) { // of several patterns, one match suffices
		only = []string{"-name", included[0]}
	}
	starts := operands[1:]
	if len(starts) == 0 {
		names, _, ok := d.find(slices.Concat([]string{".", "-type", "f"}, without, only), at)
		for i, name := range names {
			names[i] = strings.TrimPrefix(name, "./")
		}
		return names, ok
	}
	if !slices.Equal(starts, []string{"."}) {
		without = nil // conditions on folders may not apply to operands
	}
	for _, start := range starts {
		if file, ok := d.absolute(at, start); !ok || !isFolder(file) {
			only = nil // the same for a file
		}
	}
	names, _, ok := d.find(slices.Concat(starts, []string{"-type", "f"}, without, only), at)
	return names, ok
}

// plainEnding matches a pattern for all files with a suffix.
var plainEnding = lazyregexp.New(`^\*\.[A-Za-z0-9_-]+$`)

// plainFolder matches a folder's name that is not a pattern.
var plainFolder = lazyregexp.New(`^[A-Za-z0-9._-]+$`)

// tracked returns the output of "git ls-files" at the top of a repository. fewer: it may be incomplete.
func (d *disk) tracked(args []string, at place) (names []string, fewer, ok bool) {
	if at != (place{}) || len(args) == 0 || args[0] != "ls-files" || !isFolder(d.dir+"/.git") {
		return nil, false, false
	}
	if !d.indexed {
		index, err := git.Tracked(filepath.Join(d.dir, ".git", "index"), maxEntries)
		if err != nil || !d.countLookup() {
			d.looks = 0 // it is not read again
			return nil, false, false
		}
		d.index, d.indexed = index, true
	}
	names = slices.Clone(d.index)
	var specs []finder
	for _, arg := range args[1:] {
		switch {
		case arg == "-z" || arg == "--cached" || arg == "--":
		case strings.HasPrefix(arg, "-"), strings.HasPrefix(arg, ":"), path.IsAbs(arg), slices.Contains(strings.Split(arg, "/"), ".."):
			return nil, false, false
		default:
			specs = append(specs, finder{kind: "spec", value: arg})
		}
	}
	if len(specs) > 0 {
		names = slices.DeleteFunc(names, func(name string) bool {
			held := no
			for _, spec := range specs {
				if held != yes && d.countLookup() {
					held = max(held, spec.holds(name, 0))
				}
			}
			fewer = fewer || held == maybe
			return held == no
		})
	}
	return names, fewer, d.looks >= 0
}

// finder is a condition of find.
type finder struct {
	kind, value string
	not         bool
	any         []finder // for kind "(": one of these must hold
}

// findings is a parsed command line of find: the starting points, and the conditions for names.
type findings struct {
	starts     []string
	conditions []finder
	least      int
	most       int
	fewer      bool // a condition was omitted
}

// findsOf parses the arguments of find up to the first action. Conditions that only exclude names may be omitted: the
// command is then judged for more files.
func findsOf(args []string) (f findings, ok bool) {
	f.most = maxDepth
	i := 0
	for ; i < len(args) && args[i] != "" && strings.IndexByte("-(!", args[i][0]) < 0; i++ {
		f.starts = append(f.starts, args[i])
	}
	if len(f.starts) == 0 {
		f.starts = []string{"."}
	}
	not := false
	for ; i < len(args); i++ {
		value := ""
		if i+1 < len(args) {
			value = args[i+1]
		}
		switch arg := args[i]; arg {
		case "!", "-not":
			not = !not
			continue
		case "(":
			any, words := alternatives(args[i+1:])
			if len(any) == 0 {
				return f, false
			}
			f.conditions = append(f.conditions, finder{kind: "(", not: not, any: any})
			i += words
		case "-print", "-print0":
			return f, !not && i == len(args)-1
		case "-exec":
			return f, !not
		case "-a", "-and":
			continue
		case "-maxdepth", "-mindepth":
			n, err := strconv.Atoi(value)
			if err != nil || n < 0 || not {
				return f, false
			}
			if i++; arg == "-maxdepth" {
				f.most = min(n, maxDepth-1)
			} else {
				f.least = n
			}
		case "-name", "-path", "-wholename", "-type":
			f.conditions = append(f.conditions, finder{kind: arg, value: value, not: not})
			i++
		case "-iname", "-ipath", "-size", "-mtime", "-mmin", "-newer", "-user":
			i++
			f.fewer = true
		case "-empty", "-readable":
			f.fewer = true
		default:
			return f, false
		}
		not = false
	}
	return f, !not
}

// alternatives parses the words between parentheses, conditions on names only: "-name A -o -name B )". words is their
// number; 0 if it is something else.
func alternatives(args []string) (any []finder, words int) {
	for i := 0; i+2 < len(args) && args[i] == "-name"; i += 3 {
		any = append(any, finder{kind: "-name", value: args[i+1]})
		switch args[i+2] {
		case ")":
			return any, i + 3
		case "-o", "-or":
		default:
			return nil, 0
		}
	}
	return nil, 0
}

// find returns the names that find prints, or more if fewer is set; ok is false if they are unknown. If it finds
// nothing now, the result contains samples of names that it may find when it runs, so that actions on them are judged
// as if they existed.
func (d *disk) find(args []string, at place) (names []string, fewer, ok bool) {
	f, ok := findsOf(args)
	if !ok {
		return nil, false, false
	}
	for _, start := range f.starts {
		file, ok := d.absolute(at, start)
		info, err := os.Lstat(file)
		if !ok || err != nil || !info.IsDir() && !info.Mode().IsRegular() || !d.walk(&f, start, file, info.Mode(), 0, &names) {
			return nil, false, false
		}
	}
	if len(names) == 0 {
		names = f.samples()
		return names, true, len(names) > 0
	}
	return names, f.fewer, true
}

// samples returns names that meet the conditions, one for each pattern and each starting point; none if there are too
// many conditions.
func (f *findings) samples() []string {
	mode, files := fs.FileMode(0), []string{"x"}
	for _, c := range f.conditions {
		switch {
		case c.kind == "-type" && c.value == "d" && !c.not:
			mode = fs.ModeDir
		case c.kind == "(" || c.kind == "-name":
			files = append(files, c.samples()...)
		}
	}
	var names []string
	for _, start := range f.starts {
		for _, file := range files {
			name := strings.TrimSuffix(start, "/") + "/" + file
			met := func(c finder) bool { return c.holds(name, mode) == yes }
			if !slices.Contains(names, name) && !slices.ContainsFunc(f.conditions, func(c finder) bool { return !met(c) }) {
				names = append(names, name)
			}
		}
	}
	return names
}

// samples returns names that match the patterns of a condition on names.
func (c finder) samples() []string {
	if c.not {
		return nil
	}
	if c.kind != "(" {
		return []string{strings.NewReplacer("*", "x", "?", "x").Replace(c.value)}
	}
	var names []string
	for _, one := range c.any {
		names = append(names, one.samples()...)
	}
	return names
}

// walk adds the results of find for a name and everything below.
func (d *disk) walk(f *findings, name, file string, mode fs.FileMode, depth int, names *[]string) bool {
	held := yes
	for _, c := range f.conditions {
		held = min(held, c.holds(name, mode))
	}
	if depth >= f.least && held != no {
		f.fewer = f.fewer || held == maybe
		if *names = append(*names, name); len(*names) > maxEntries {
			return false
		}
	}
	if !mode.IsDir() || depth >= f.most {
		return depth < maxDepth
	}
	entries, ok := d.names(file)
	if !ok {
		return false
	}
	for _, entry := range entries {
		below := file + "/" + entry
		info, err := os.Lstat(below)
		if err != nil || !d.countLookup() || !d.walk(f, strings.TrimSuffix(name, "/")+"/"+entry, below, info.Mode(), depth+1, names) {
			return false
		}
	}
	return true
}

// holds returns how certain it is that a condition holds for a name of a file with a mode.
func (c finder) holds(name string, mode fs.FileMode) certainty {
	held := maybe
	switch c.kind {
	case "-type":
		switch {
		case c.value == "f" && mode.IsDir(), c.value == "d" && !mode.IsDir():
			held = no
		case c.value == "d", c.value == "f" && mode.IsRegular():
			held = yes
		}
	case "-name":
		held = loosely(c.value, path.Base(name))
	case "-path", "-wholename":
		held = loosely(c.value, name)
	case "(":
		held = no
		for _, one := range c.any {
			held = max(held, one.holds(name, mode))
		}
	case "spec":
		if held = loosely(c.value, name); below(strings.TrimSuffix(c.value, "/"), name) || c.value == "." {
			held = yes
		}
	}
	switch {
	case !c.not || held == maybe:
		return held
	case held == yes:
		return no
	}
	return yes
}

// loosely matches a name with a pattern in which no character is quoted, and a star also matches slashes.
func loosely(text, name string) certainty {
	p := pattern{text, slices.Repeat([]bool{true}, len(text))}
	if !p.plain() {
		return maybe
	}
	return p.matches(name)
}
