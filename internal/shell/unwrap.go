package shell

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// outcome is the result of unwrapping a wrapper.
type outcome uint8

const (
	// itself: it runs no other command with these arguments.
	itself outcome = iota
	// inner: it runs the returned call.
	inner
	// done: all its commands have been added.
	done
)

// unwrap unwraps c, whose first word names the wrapper w.
func (r *reading) unwrap(w wrapper, c call) (call, outcome) {
	switch w.kind {
	case runsOperands, runsSplit:
		return r.unwrapOperands(w, c)
	case runsAppended:
		return r.unwrapAppended(w, c)
	case runsLine:
		return r.unwrapLine(c, c.args[1:])
	case runsHandler:
		return r.unwrapHandler(w, c)
	case runsShell:
		return r.unwrapShell(w, c)
	case runsAmong:
		return r.unwrapAmong(c)
	case runsGit:
		return r.unwrapGit(c)
	case runsFar:
		return r.unwrapFar(*w.far, c)
	case changesFolder:
		at := movesTo(r.at(c), c.args[1:])
		c.at = &at
		return c, itself
	case assigns:
		return r.assign(c), itself
	}
	if words := strings.Join(texts(c.args), " "); words == "arch" || words == "tmux -V" {
		return c, itself // they print the machine's architecture, and a version
	}
	r.opaque(c, "%s runs or changes what cannot be seen here", c.args[0].text)
	r.guess(w, c)
	return c, done
}

func (r *reading) unwrapOperands(w wrapper, c call) (call, outcome) {
	given, rest, ok := w.options.take(c.args[1:])
	switch {
	case !ok:
		return r.confused(c)
	case has(given, w.unseen...):
		return r.opaque(c, "%s has an option that hides what runs", c.args[0].text)
	case has(given, w.itself...):
		return c, itself
	}
	name := c.args[0].text
	for _, opt := range given {
		if slices.Contains(w.named, opt.name) {
			name += " " + dashed(opt.name)
		}
	}
	if w.kind == runsSplit {
		if rest, ok = splitString(given, rest); !ok {
			return r.opaque(c, "%s splits a string that is not plain words", c.args[0].text)
		}
		if len(rest) > 0 && rest[0].text == "-" && !rest[0].dynamic { // the old spelling of -i
			name, rest = name+" -i", rest[1:]
		}
	}
	for range w.operands {
		if len(rest) == 0 {
			return c, itself
		}
		if rest[0].dynamic {
			return r.confused(c)
		}
		rest = rest[1:]
	}
	at := r.at(c)
	for _, opt := range given {
		if slices.Contains(w.directory, opt.name) {
			at = at.in(word{text: opt.value})
		}
	}
	assignments := c.assignments
	for w.environment && len(rest) > 0 && !rest[0].dynamic && strings.Contains(rest[0].text, "=") {
		assignments = append(assignments[:len(assignments):len(assignments)], rest[0].text)
		variable, value, _ := strings.Cut(rest[0].text, "=")
		r.remembered(variable, word{text: value})
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return c, itself
	}
	c = c.wrapped(name, rest)
	c.assignments, c.at = assignments, &at
	c.dynamic = c.dynamic || has(given, w.disguise...)
	return c, inner
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}

// splitString inserts the words of "env -S STRING" before the others. It returns false if the string contains more than
// words with blanks between them.
func splitString(given []option, rest []word) ([]word, bool) {
	for _, opt := range given {
		if opt.name != "S" && opt.name != "split-string" {
			continue
		}
		if strings.ContainsAny(opt.value, "\\\"'$#\n\v\f") {
			return nil, false
		}
		var split []word
		for _, field := range strings.Fields(opt.value) {
			split = append(split, word{text: field})
		}
		// The string may begin with options of env itself, which is not supported because it is unusual.
		if len(split) > 0 && strings.HasPrefix(split[0].text, "-") {
			return nil, false
		}
		rest = append(split, rest...)
	}
	return rest, true
}

// appended stands for arguments that are known only when a command runs.
const appended = "$@"

func (r *reading) unwrapAppended(w wrapper, c call) (call, outcome) {
	given, rest, ok := w.options.take(c.args[1:])
	if !ok {
		return r.confused(c)
	}
	if len(rest) == 0 {
		return c, itself
	}
	replace, also := "", false // some versions of xargs append their input although they replace a text
	for _, opt := range given {
		switch opt.name {
		case "I":
			replace = opt.value
		case "i", "replace":
			replace = cmp.Or(opt.value, "{}")
		case "J":
			replace, also = opt.value, true
		case "R", "n", "L", "l", "max-args", "max-lines": // the last of these options counts
			also = true
		case "process-slot-var":
			r.giveUp("%s sets a variable for what it runs", c.args[0].text)
			c.assignments = append(slices.Clone(c.assignments), opt.value+"=0") // it uses its own PATH
		}
	}
	args := make([]word, 0, len(rest)+1)
	for _, arg := range rest {
		if replace != "" && strings.Contains(arg.text, replace) {
			arg = word{text: strings.ReplaceAll(arg.text, replace, "{}"), dynamic: true, kind: isText} // a line of input
		}
		args = append(args, arg)
	}
	if replace == "" || also {
		args = append(args, word{text: appended, dynamic: true})
	}
	f := c.feed
	c = c.wrapped(c.args[0].text, args)
	c.input, c.feed = nil, nil
	if f != nil && (replace == "" || !also) && r.appends(c, rest, given, replace, f) {
		return c, done
	}
	return c, inner
}

// appends adds the commands that xargs runs for a known input: with all names, of which some may be missing, and
// without names.
func (r *reading) appends(c call, rest []word, given []option, replace string, f *feed) bool {
	zero, none := false, true
	for _, opt := range given {
		switch opt.name {
		case "0", "null":
			zero = true
		case "r", "no-run-if-empty":
			none = false
		case "n", "P", "L", "I", "t", "x", "max-args", "max-procs", "max-lines", "verbose", "exit":
		default:
			return false
		}
	}
	if zero != f.zero || someDynamic(rest) {
		return false
	}
	c.written = f.written
	if replace != "" {
		return !strings.Contains(rest[0].text, replace) && r.each(c, rest, replace, f.names, f.fewer)
	}
	if len(f.names) > 0 && !inAnyOrder(rest, f.names) {
		return false
	}
	if none || len(f.names) == 0 {
		c.args = rest
		r.command(c)
	}
	if len(f.names) > 0 {
		c.args = named(rest, f.names, f.fewer)
		r.command(c)
	}
	return true
}

// named returns words followed by names, which may be only possible.
func named(words []word, names []string, possible bool) []word {
	words = slices.Clone(words)
	for _, name := range names {
		words = append(words, word{text: name, possible: possible})
	}
	return words
}

// each adds a command for each name, with the name in place of a text.
func (r *reading) each(c call, words []word, replace string, names []string, possible bool) bool {
	if len(names) == 0 || len(names) > maxUnrolled {
		return false
	}
	for _, name := range names {
		if r.tooMuch() {
			break
		}
		c.args = make([]word, len(words))
		for i, w := range words {
			c.args[i] = word{text: strings.ReplaceAll(w.text, replace, name), possible: possible && strings.Contains(w.text, replace)}
		}
		r.command(c)
	}
	return true
}

func (r *reading) unwrapLine(c call, args []word) (call, outcome) {
	if len(args) > 0 && args[0].text == "--" {
		args = args[1:]
	}
	switch {
	case someDynamic(args):
		return r.opaque(c, "%s runs a line that is only known when it runs", c.args[0].text)
	case len(args) == 0:
		return c, itself
	}
	r.within(c)
	read := func() { r.line(joined(args), c.grammar, c.wrapped(c.args[0].text, nil).wrappers) }
	switch moves := r.moves; {
	case baseName(c.args[0].text) == "trap":
		// It runs later, in any directory of the line, and before the following commands.
		r.apart(elsewhere, func() {
			read()
			r.adrift = r.adrift || r.moves != moves
		})
	case r.inShell(c):
		read()
	default:
		r.apart(r.at(c), read)
	}
	return c, done
}

func (r *reading) unwrapHandler(w wrapper, c call) (call, outcome) {
	given, rest, ok := w.options.take(c.args[1:])
	switch {
	case !ok:
		return r.confused(c)
	case has(given, w.itself...), len(rest) < 2, !rest[0].dynamic && (rest[0].text == "" || rest[0].text == "-"):
		return c, itself
	}
	return r.unwrapLine(c, rest[:1])
}

func (r *reading) unwrapShell(w wrapper, c call) (call, outcome) {
	name := c.args[0].text
	if w.dialect == foreign {
		return r.opaque(c, "%s reads a language that is not known here", name)
	}
	if len(c.args) == 2 && c.args[1] == (word{text: "--version"}) {
		return c, itself
	}
	given, rest, ok := w.options.take(c.args[1:])
	if !ok {
		return r.confused(c)
	}
	for _, opt := range given {
		if !opt.harmless() {
			r.giveUp("%s has an option that changes what a line means or what runs before it: %s", name, dashed(opt.name))
		}
	}
	if len(rest) > 0 && rest[0].text == "-" && !rest[0].dynamic {
		rest = rest[1:]
	}
	r.lost = r.lost || r.disk != nil && !r.undisturbed(given, c)
	var line word
	as := name
	switch {
	case has(given, "c"):
		if len(rest) == 0 {
			return c, itself
		}
		line, as = rest[0], name+" -c"
	case len(rest) > 0 && !has(given, "s") && !strings.HasPrefix(rest[0].text, "/dev/") &&
		!strings.HasPrefix(rest[0].text, "/proc/"):
		return c, itself // a script, which is not read
	case c.input != nil:
		line = *c.input
	default:
		line.dynamic = true
	}
	if line.dynamic {
		return r.opaque(c, "%s runs what is only known when it runs", name)
	}
	grammar := r.unknown
	switch w.dialect {
	case bashOnly:
		grammar = syntax.LangBash
		if has(given, "posix") {
			grammar = r.unknown
		}
	case otherShell:
		grammar = syntax.LangBash
		r.giveUp("%s reads a language that is not quite known here", name)
	}
	r.within(c)
	r.apart(r.at(c), func() { r.line(line.text, grammar, c.wrapped(as, nil).wrappers) })
	return c, done
}

// undisturbed reports whether a shell expands the words of its line in the same way as this package: once, and without
// an option or variable that changes it.
func (r *reading) undisturbed(given []option, c call) bool {
	return !slices.ContainsFunc(given, func(opt option) bool {
		return !slices.Contains([]string{"c", "e", "u", "x", "l"}, opt.name) &&
			(opt.name != "o" || !slices.Contains([]string{"errexit", "nounset", "pipefail", "xtrace"}, opt.value))
	}) && !slices.ContainsFunc(c.assignments, harmful) &&
		!slices.ContainsFunc(c.wrappers, func(by string) bool { return strings.HasPrefix(by, "xargs") || strings.HasPrefix(by, "find") })
}

// unwrapAmong adds find itself, and then the commands that find runs.
func (r *reading) unwrapAmong(c call) (call, outcome) {
	if someDynamic(c.args[1:]) {
		return r.opaque(c, "%s has arguments that are only known when it runs", c.args[0].text)
	}
	stirred := r.stirred
	r.plain(c)
	alone := &permissionv1.SubCommand{
		Argv: withoutRuns(c.args), Wrappers: c.wrappers, Redirections: c.redirects, Assignments: c.assignments,
	}
	if r.disk != nil && still(alone) {
		r.stirred = stirred // its commands are counted separately
	}
	for i := 1; i < len(c.args); i++ {
		action := c.args[i].text
		if !slices.Contains([]string{"-exec", "-execdir", "-ok", "-okdir"}, action) {
			continue
		}
		start := i + 1
		for i++; i < len(c.args); i++ {
			end := c.args[i].text
			if end == ";" || (end == "+" && i > start && c.args[i-1].text == "{}") {
				break
			}
		}
		args := slices.Clone(c.args[start:min(i, len(c.args))])
		for j := range args {
			args[j].dynamic = args[j].dynamic || strings.Contains(args[j].text, "{}")
		}
		if len(args) > 0 {
			ran := c.wrapped(c.args[0].text+" "+action, args)
			ran.input, ran.feed = nil, nil
			if action == "-exec" && i < len(c.args) && r.finds(ran, c, c.args[start:i], c.args[i].text == "+") {
				continue
			}
			if strings.HasSuffix(action, "dir") {
				ran.at = &place{unknown: true}
			}
			r.command(ran)
		}
	}
	return c, done
}

// withoutRuns returns the arguments of find without the commands that it runs.
func withoutRuns(args []word) []string {
	var argv []string
	for i := 0; i < len(args); i++ {
		if args[i].text == "-exec" {
			for i < len(args) && args[i].text != ";" && (args[i].text != "+" || args[i-1].text != "{}") {
				i++
			}
			continue
		}
		argv = append(argv, args[i].text)
	}
	return argv
}

// finds adds the commands that find runs for its results, if they are certain.
func (r *reading) finds(ran, find call, args []word, together bool) bool {
	texts := make([]string, len(find.args)-1)
	for i, arg := range find.args[1:] {
		texts[i] = arg.text
	}
	part := func(arg word) bool { return strings.Contains(arg.text, "{}") && arg.text != "{}" }
	if r.disk == nil || r.stirred > 0 || slices.Contains(texts, "-follow") || slices.ContainsFunc(args, part) ||
		slices.ContainsFunc(find.wrappers, func(by string) bool { return !calm[by] }) {
		return false
	}
	names, fewer, ok := r.disk.find(texts, r.at(find))
	unsendable := func(name string) bool { return !utf8.ValidString(name) }
	if !ok || len(names) == 0 || len(names) > maxAppended || slices.ContainsFunc(names, unsendable) {
		return false
	}
	r.expanded++
	stirred := r.stirred
	ran.written = Quote(append([]string{find.args[0].text}, texts...))
	if before := args[:len(args)-1]; together {
		if len(before) == 0 || slices.Contains(before, word{text: "{}"}) || !inAnyOrder(before, names) {
			return false
		}
		ran.args = named(before, names, fewer)
		r.command(ran)
	} else if args[0].text == "{}" || !r.each(ran, args, "{}", names, fewer) {
		return false
	}
	r.lost = r.lost || r.stirred != stirred // find continues to search while the command runs
	return true
}

// fed gives up on programs that read their code from a here-document, or from standard input.
func (r *reading) fed(c call) {
	if len(c.args) == 0 || c.args[0].dynamic || !Interpreter(c.args[0].text) {
		return
	}
	code := true // the arguments contain no program
	for _, arg := range c.args[1:] {
		switch {
		case arg.text == "-" || strings.HasPrefix(arg.text, "/dev/") || strings.HasPrefix(arg.text, "/proc/"):
			r.giveUp("%s runs what it reads", c.args[0].text)
			return
		case !strings.HasPrefix(arg.text, "-") || len(arg.text) > 2:
			code = false
		}
	}
	if (code && len(c.args) == 1) || (code && c.input != nil) {
		r.giveUp("%s runs what it reads", c.args[0].text)
	}
}

// guess adds the command that an opaque wrapper most likely runs, so that a deny rule can match it. The line is
// unparsed already, so this cannot allow anything.
func (r *reading) guess(w wrapper, c call) {
	if !w.guess {
		return
	}
	rest := c.args[1:]
	for i, arg := range rest[:max(0, len(rest)-1)] {
		if (arg.text == "-c" || arg.text == "--command") && !rest[i+1].dynamic {
			r.apart(elsewhere, func() { r.line(rest[i+1].text, c.grammar, c.wrapped(c.args[0].text+" -c", nil).wrappers) })
			break
		}
	}
	skip := w.operands
	for i, arg := range rest {
		switch {
		case arg.dynamic:
			return
		case strings.HasPrefix(arg.text, "-"):
		case skip > 0:
			skip--
		default:
			inner := c.wrapped(c.args[0].text, rest[i:])
			inner.dynamic, inner.at = true, &place{unknown: true}
			r.command(inner)
			return
		}
	}
}
