package shell

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"mvdan.cc/sh/v3/syntax"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// reading is one pass over a line under one assumption about the shell. It collects simple commands.
type reading struct {
	unknown  syntax.LangVariant // the grammar of shells of unknown kind
	subs     []*permissionv1.SubCommand
	unparsed string
	nesting  int
	declared map[string]bool // functions that the line declares

	dir      place // where the next command runs
	ok, fail place // the directory after the last command succeeded, or failed
	base     int   // number of wrappers around the current line
	alone    bool  // only the program itself is read, and not what it starts
	moves    int   // number of possible changes of the directory
	moved    bool  // the directory may have changed
	adrift   bool  // no directory is certain

	disk     *disk // nil: nothing is expanded
	stirred  int   // number of commands so far that may have changed a file
	expanded int   // number of expanded patterns so far
	turns    int   // iterations of loops
	filled   int   // bytes of expanded values
	words    int   // words of commands
	forks    int   // number of cd that may have failed
	nested   int   // nested substitutions around plainCall
	refused  bool  // a shell with this grammar ends the line with an error, and runs only the commands before it
	lost     bool  // expanded words may differ when the line runs
}

func newReading(unknown syntax.LangVariant) *reading {
	return &reading{unknown: unknown, declared: map[string]bool{}}
}

// giveUp records that the commands may be incomplete. The first reason is kept.
func (r *reading) giveUp(format string, args ...any) {
	if r.unparsed == "" {
		r.unparsed = strings.ToValidUTF8(fmt.Sprintf(format, args...), "\uFFFD")
	}
}

// finish marks calls of functions that the line declares, because their names are not those of programs.
func (r *reading) finish() {
	for _, sub := range r.subs {
		if len(sub.Argv) > 0 && r.declared[sub.Argv[0]] {
			if !sub.Dynamic || len(sub.DynamicWords) > 0 {
				sub.DynamicWords = slices.Insert(sub.DynamicWords, 0, 0)
				sub.DynamicWords = slices.Compact(sub.DynamicWords)
			}
			sub.Dynamic = true
		}
	}
	r.settle()
}

func (r *reading) add(sub *permissionv1.SubCommand) {
	if len(r.subs) == maxCommands {
		r.giveUp("more than %d commands", maxCommands)
		return
	}
	r.subs = append(r.subs, sub)
}

// line parses a whole line with a grammar. wrappers are the wrappers around it.
func (r *reading) line(text string, grammar syntax.LangVariant, wrappers []string) {
	if reason := unreadable(text); reason != "" {
		r.giveUp("%s", reason)
		return
	}
	if r.nesting == maxNesting {
		r.giveUp("lines within lines over %d deep", maxNesting)
		return
	}
	r.nesting++
	r.ok, r.fail = r.dir, r.dir
	base := r.base
	r.base = len(wrappers)
	defer func() { r.nesting, r.base = r.nesting-1, base }()

	if endsEscaped(text) {
		// For a shell it is a literal character, unless the line is continued.
		r.giveUp("ends in a backslash")
	}
	if strings.Contains(text, "$\\\n") {
		// The expansion continues in the next line, which the parser does not see.
		r.giveUp("a line that ends in a dollar goes on")
	}
	file, err := syntax.NewParser(syntax.Variant(grammar)).Parse(strings.NewReader(text), "")
	for range 3 { // until no comment changes
		mended := mendComments(file, text)
		if mended == text {
			break
		}
		r.giveUp("a comment that ends in a backslash")
		text = mended
		file, err = syntax.NewParser(syntax.Variant(grammar)).Parse(strings.NewReader(text), "")
	}
	w := &walker{reading: r, source: text, grammar: grammar, wrappers: wrappers}
	if file != nil {
		r.misreads(file, text)
		if r.disk != nil && !w.follow(file) {
			r.lost = true
		}
		if w.lines(file.Stmts, true); w.variables != nil {
			w.forget()
		}
	}
	switch {
	case err == nil:
	case grammar == syntax.LangPOSIX && refusedBySome(err, text):
		r.refused = true
	default:
		r.giveUp("not a well-formed line: %v", err)
	}
}

// refusedBySome reports whether a plain POSIX shell rejects a line because of a here-string or of "<(COMMAND)". Every
// shell reads those as bash does, or ends with an error and runs only the commands before them.
func refusedBySome(err error, text string) bool {
	if unknown, ok := errors.AsType[syntax.LangError](err); ok {
		return unknown.Feature == "herestrings"
	}
	malformed, ok := errors.AsType[syntax.ParseError](err)
	return ok && malformed.Text == "`<` must be followed by a word" && strings.HasPrefix(text[min(int(malformed.Pos.Offset()), len(text)):], "<(")
}

// endsEscaped reports whether a text ends in a backslash that quotes nothing.
func endsEscaped(text string) bool {
	return (len(text)-len(strings.TrimRight(text, `\`)))%2 == 1
}

// mendComments removes the backslash at the end of a comment. For a shell, a comment always ends with its line, and the
// next line runs; the parser joins the two. Each "#" before such an end must be known to be part of a word.
func mendComments(file *syntax.File, text string) string {
	if file == nil || !strings.Contains(text, "#") || !strings.Contains(text, "\\\n") {
		return text
	}
	inWord := inWords(file, len(text))
	mended, start := []byte(text), 0
	for line := range strings.Lines(text) {
		end := strings.TrimSuffix(line, "\\\n")
		for i := range len(end) {
			if end[i] == '#' && len(end) < len(line) && !inWord[start+i] {
				mended[start+len(end)] = ' '
				break
			}
		}
		start += len(line)
	}
	return string(mended)
}

// inWords returns for each byte of a line whether it is certainly part of a word.
func inWords(file *syntax.File, size int) []bool {
	in := make([]bool, size)
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n.(type) {
		case *syntax.Lit, *syntax.SglQuoted:
			// a line is 64 KiB at most
			for at := int(n.Pos().Offset()); at < min(int(n.End().Offset()), size); at++ {
				in[at] = true
			}
		}
		return true
	})
	return in
}

// unreadable returns the reason why a text cannot be given to the parser.
func unreadable(text string) string {
	switch {
	case len(text) > MaxLine:
		return fmt.Sprintf("longer than %d bytes", MaxLine)
	case !utf8.ValidString(text):
		return "not UTF-8"
	case strings.ContainsAny(text, "\x00\r"):
		// Shells and the parser treat these differently.
		return "holds a NUL or a carriage return"
	}
	open := 0
	for _, bracket := range [...]string{"(", "{", "`", "["} {
		open += strings.Count(text, bracket)
	}
	if open > maxOpen {
		return "too many brackets and backquotes"
	}
	return ""
}

// call is a simple command while its wrappers are removed.
type call struct {
	args        []word
	redirects   []*permissionv1.Redirection
	assignments []string
	wrappers    []string
	grammar     syntax.LangVariant
	input       *word  // the here-document or here-string on its standard input
	dynamic     bool   // a word may be dynamic
	at          *place // its directory; nil: that of the line
	feed        *feed  // its input from a pipe; nil: unknown
	written     string // the command as written, if some words were expanded
	without     []word // its words without the possible output of a substitution; nil if there is no difference
}

// command adds the simple command c or, if it is a wrapper, the commands that it runs.
func (r *reading) command(c call) {
	for len(c.args) > 0 && !c.args[0].dynamic {
		w, known := wrappers[baseName(c.args[0].text)]
		if !known || r.alone && !w.sameProgram() {
			break
		}
		if len(c.wrappers) >= maxWrappers {
			r.opaque(c, "over %d wrappers around one command", maxWrappers)
			return
		}
		next, came := r.unwrap(w, c)
		if came == done {
			return
		}
		c = next
		if came == itself {
			break
		}
	}
	r.fed(c)
	r.plain(c)
}

// plain adds c unchanged.
func (r *reading) plain(c call) {
	if len(c.args) > 0 && strings.HasPrefix(c.args[0].text, "-") {
		// An option instead of a command: a wrapper has an option that is unknown here.
		r.giveUp("a command that begins with a dash: %s", c.args[0].text)
	}
	sub := &permissionv1.SubCommand{
		Redirections: c.redirects, Dynamic: c.dynamic, Assignments: c.assignments, Wrappers: c.wrappers,
		Written: c.written,
	}
	for i, arg := range c.args {
		sub.Argv = append(sub.Argv, arg.text)
		if arg.dynamic {
			sub.Dynamic = true
			sub.DynamicWords = append(sub.DynamicWords, uint32(i))
		}
		if arg.possible {
			sub.PossibleWords = append(sub.PossibleWords, uint32(i))
		}
		switch {
		case !arg.dynamic:
		case arg.kind == isText:
			sub.TextWords = append(sub.TextWords, uint32(i))
		case arg.kind == isPipe:
			sub.PipedWords = append(sub.PipedWords, uint32(i))
		}
	}
	if c.dynamic {
		sub.DynamicWords, sub.TextWords, sub.PipedWords = nil, nil, nil
	}
	at := r.at(c)
	sub.Cwd, sub.CwdUnknown = at.path, at.unknown || at.gone
	r.add(sub)
	r.words += len(c.args)
	if r.disk != nil && !still(sub) {
		r.stirred++
	}
	r.ran(c)
	r.moved = r.moved || r.moves > 0
}

// opaque adds c as a command that runs an unknown command.
func (r *reading) opaque(c call, format string, args ...any) (call, outcome) {
	seen := c
	seen.dynamic = true
	r.plain(seen)
	r.giveUp(format, args...)
	if r.inShell(seen) {
		r.astray()
	}
	return c, done
}

// confused is opaque for a wrapper whose command begins at an uncertain position.
func (r *reading) confused(c call) (call, outcome) {
	return r.opaque(c, "%s has arguments that cannot be told apart", c.args[0].text)
}

// within adds to commands of an inner line the assignments and redirections of the command around it.
func (r *reading) within(c call) {
	if len(c.redirects) > 0 || len(c.assignments) > 0 {
		r.plain(call{redirects: c.redirects, assignments: c.assignments, wrappers: c.wrappers, at: c.at})
	}
}

// wrapped returns c with one more wrapper around it and other arguments.
func (c call) wrapped(by string, args []word) call {
	c.wrappers = append(slices.Clip(c.wrappers), by)
	c.args = args
	return c
}

// baseName returns the program's name without its folder.
func baseName(program string) string { return program[strings.LastIndexByte(program, '/')+1:] }
