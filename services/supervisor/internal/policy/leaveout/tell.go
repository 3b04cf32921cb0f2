package leaveout

import (
	"os"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/facts"
	"github.com/acphost/acphost/internal/git"
	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// told are the programs that can be told to leave files out by a pattern of their names, and how. In each of them the last
// option that speaks of a file counts, and options may stand behind operands.
var told = map[string]func(pattern string) []string{
	"grep": grep, "egrep": grep, "fgrep": grep,
	// Whatever stands in --iglob counts for more than what stands in --glob.
	"rg":   func(pattern string) []string { return []string{"--glob=!" + pattern, "--iglob=!" + pattern} },
	"diff": func(pattern string) []string { return []string{"--exclude=" + pattern} },
}

func grep(pattern string) []string {
	return []string{"--exclude=" + pattern, "--exclude-dir=" + pattern}
}

// escaped is a pattern that matches just the name.
func escaped(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`).Replace(name)
}

// Tell returns the command with its programs told to leave out what was found. argv is what is executed: a program with its
// arguments, or a shell with a line. walking are the commands in it that walk through folders, as the programs get them. Tell
// reports false if it cannot tell every one of them for certain: one does not take such options, or stands behind a wrapper.
func Tell(argv []string, walking [][]string, found Found) ([]string, bool) {
	unable := func(command []string) bool { return told[path.Base(command[0])] == nil }
	out := found.excluded()
	if len(argv) == 0 || found.Whole || slices.ContainsFunc(variables, func(name string) bool { return os.Getenv(name) != "" }) ||
		slices.ContainsFunc(walking, unable) && len(out) > 0 || slices.ContainsFunc(out, unclear) {
		return nil, false
	}
	line := lineOf(argv)
	if line < 0 {
		return words(argv, out, found.Git)
	}
	text, ok := tellLine(argv[line], walking, out, found.Git)
	if !ok {
		return nil, false
	}
	argv = slices.Clone(argv)
	argv[line] = text
	return argv, true
}

// variables change what options, or pathspecs, mean.
var variables = []string{"POSIXLY_CORRECT", "GIT_LITERAL_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS"}

// ChangesMeaning reports whether a variable, "NAME=VALUE", changes what options or pathspecs mean, so that a program
// may not leave out what it is told to.
func ChangesMeaning(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	return slices.Contains(variables, name)
}

// unclear reports whether programs, or shells, may take a pattern for another one.
func unclear(pattern string) bool {
	return !utf8.ValidString(pattern) || strings.TrimSpace(pattern) != pattern || strings.ContainsFunc(pattern, unicode.IsControl)
}

// lineOf is the index of the line that a shell is given; negative: argv is no shell's.
func lineOf(argv []string) int {
	shells := []string{"sh", "bash", "dash"}
	if len(argv) == 3 && slices.Contains(shells, path.Base(argv[0])) && slices.Contains([]string{"-c", "-lc"}, argv[1]) {
		return 2
	}
	return -1
}

// words adds the options to a program and its arguments.
func words(argv, out []string, rewrites []Rewrite) ([]string, bool) {
	if path.Base(argv[0]) == "git" {
		now := rewritten(argv, rewrites)
		return now, now != nil
	}
	how := told[path.Base(argv[0])]
	if how == nil {
		return nil, false
	}
	end, ok := facts.OptionsEnd(argv)
	if !ok {
		return nil, false
	}
	return slices.Insert(slices.Clone(argv), end, options(how, out)...), true
}

func options(how func(string) []string, out []string) []string {
	var all []string
	for _, pattern := range out {
		all = append(all, how(pattern)...)
	}
	return all
}

// tellLine adds the options to each program of a line that takes them. It then reads the new line, to be sure that nothing
// else changed and that no such program was overlooked.
func tellLine(line string, walking [][]string, out []string, rewrites []Rewrite) (string, bool) {
	commands, ok := shell.Layout(line)
	if !ok {
		return "", false
	}
	type insertion struct {
		at   int
		text string
	}
	var all []insertion
	for _, c := range commands {
		if len(c.Words) == 0 || c.Words[0].Dynamic {
			continue
		}
		var argv []string
		for _, w := range c.Words {
			argv = append(argv, w.Text)
		}
		now, ok := wordsInLine(argv, c.Words, line, walking, out, rewrites)
		if !ok {
			return "", false
		}
		have := 0
		for _, word := range now {
			if have < len(argv) && word == argv[have] {
				have++
			} else {
				all = append(all, insertion{c.Words[have-1].End, " " + shell.Quote([]string{word})})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b insertion) int { return a.at - b.at })
	text := line
	for _, in := range slices.Backward(all) { // so that places stay what they are
		text = text[:in.at] + in.text + text[in.at:]
	}
	return text, isTold(line, text, out, rewrites)
}

// wordsInLine is words for a command of a line. A program that need not be told stays as it is.
func wordsInLine(argv []string, placed []shell.Placed, line string, walking [][]string, out []string, rewrites []Rewrite) ([]string, bool) {
	dynamic := slices.ContainsFunc(placed, func(w shell.Placed) bool { return w.Dynamic })
	switch program := path.Base(argv[0]); {
	case program == "git" && len(rewrites) == 0, program != "git" && (told[program] == nil || len(out) == 0):
		return argv, true
	case program == "git" && dynamic:
		return nil, false
	case program == "git":
		if now := rewritten(argv, rewrites); now != nil {
			return now, true
		}
		return argv, !git.ContentsOf(argv).Any()
	case dynamic && !keepsOptions(line, placed, walking):
		return nil, false
	}
	return words(argv, out, rewrites)
}

// longOption is how a word begins that is a long option with its value.
var longOption = lazyregexp.New(`^--[a-z][a-z-]*=`)

// keepsOptions reports whether words that are known only when the line runs leave options behind them what they are: none of them
// may become "--".
func keepsOptions(line string, placed []shell.Placed, walking [][]string) bool {
	for _, w := range placed {
		first := strings.Trim(line[w.Start:w.End], `"`)
		switch {
		case w.Text == "--":
			return false
		case w.Dynamic && longOption.MatchString(first): // whatever stands for the rest
		case w.Dynamic && (first == "" || strings.ContainsRune("-*?[$`~{<>=+@!'\\", rune(first[0]))) &&
			!(first != "" && first[0] == '$' && !strings.ContainsAny(line, "*?[`(")):
			return false
		}
	}
	return !slices.ContainsFunc(walking, func(argv []string) bool { return slices.Contains(argv, "--") })
}

// isTold reports whether a line is another one with what is added to each of its programs.
func isTold(before, after string, out []string, rewrites []Rewrite) bool {
	old, whyOld := shell.Parse(before)
	now, whyNow := shell.Parse(after)
	if whyOld != "" || whyNow != "" || len(old) != len(now) {
		return false
	}
	used := 0
	for _, r := range rewrites {
		if slices.ContainsFunc(old, func(sub *permissionv1.SubCommand) bool { return slices.Equal(sub.GetArgv(), r.Argv) }) {
			used++
		}
	}
	for i, sub := range old {
		want := proto.CloneOf(sub)
		argv := sub.GetArgv()
		switch {
		case len(argv) == 0:
		case path.Base(argv[0]) == "git":
			if told := rewritten(argv, rewrites); told != nil {
				want.Argv = told
			} else if len(rewrites) > 0 && (sub.GetDynamic() || git.ContentsOf(argv).Any()) {
				return false
			}
		case told[path.Base(argv[0])] != nil && len(out) > 0:
			if sub.GetDynamic() && slices.Contains(argv, "--") { // the dynamic words would have other places
				return false
			}
			var ok bool
			if want.Argv, ok = words(argv, out, nil); !ok {
				return false
			}
		}
		if !proto.Equal(alone(want), alone(proto.CloneOf(now[i]))) {
			return false
		}
	}
	return used == len(rewrites)
}

// alone is a simple command without the substitutions in its words: the commands in these stand behind it.
func alone(sub *permissionv1.SubCommand) *permissionv1.SubCommand {
	for i, word := range sub.GetArgv() {
		if shell.DynamicWord(sub, i) {
			sub.Argv[i], _, _ = strings.Cut(strings.ReplaceAll(strings.ReplaceAll(word, "`", "$("), "<(", "$("), "$(")
		}
	}
	return sub
}
