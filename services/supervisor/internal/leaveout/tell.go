package leaveout

import (
	"os"
	"path"
	"slices"
	"strings"
	"unicode"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/facts"
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

// escaped is a pattern that matches just the name, but for blanks: rg takes those at its end off.
func escaped(name string) string {
	name = strings.Map(func(c rune) rune {
		if unicode.IsSpace(c) {
			return ' '
		}
		return c
	}, name)
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, ` `, `*`).Replace(name)
}

// Tell returns the command with its programs told to leave out what was found. argv is what is executed: a program with its
// arguments, or a shell with a line. walking are the programs of the command that walk through folders, as it names them. Tell
// reports false if it cannot tell every one of them for certain: one does not take such options, or stands behind a wrapper.
func Tell(argv, walking []string, found Found) ([]string, bool) {
	unable := func(program string) bool { return told[path.Base(program)] == nil }
	if len(argv) == 0 || found.Whole || os.Getenv("POSIXLY_CORRECT") != "" || slices.ContainsFunc(walking, unable) {
		return nil, false
	}
	out := found.excluded()
	line := lineOf(argv)
	if line < 0 {
		return words(argv, out)
	}
	text, ok := tellLine(argv[line], out)
	if !ok {
		return nil, false
	}
	argv = slices.Clone(argv)
	argv[line] = text
	return argv, true
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
func words(argv, out []string) ([]string, bool) {
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
func tellLine(line string, out []string) (string, bool) {
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
		if len(c.Words) == 0 || c.Words[0].Dynamic || told[path.Base(c.Words[0].Text)] == nil {
			continue
		}
		argv := make([]string, len(c.Words))
		for i, w := range c.Words {
			argv[i] = w.Text
		}
		end, ok := facts.OptionsEnd(argv)
		if !ok {
			return "", false
		}
		all = append(all, insertion{c.Words[end-1].End, " " + shell.Quote(options(told[path.Base(c.Words[0].Text)], out))})
	}
	slices.SortFunc(all, func(a, b insertion) int { return b.at - a.at }) // from the end, so that places stay what they are
	text := line
	for _, in := range all {
		text = text[:in.at] + in.text + text[in.at:]
	}
	return text, isTold(line, text, out)
}

// isTold reports whether a line is another one with the options for each of its programs.
func isTold(before, after string, out []string) bool {
	old, whyOld := shell.Parse(before)
	now, whyNow := shell.Parse(after)
	if whyOld != "" || whyNow != "" || len(old) != len(now) {
		return false
	}
	for i, sub := range old {
		want := proto.CloneOf(sub)
		if argv := sub.GetArgv(); len(argv) > 0 && told[path.Base(argv[0])] != nil {
			if sub.GetDynamic() && slices.Contains(argv, "--") { // the dynamic words would have other places
				return false
			}
			var ok bool
			if want.Argv, ok = words(argv, out); !ok {
				return false
			}
		}
		if !proto.Equal(alone(want), alone(proto.CloneOf(now[i]))) {
			return false
		}
	}
	return true
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
