// Package shell splits a command line into every simple command that it may run, with arguments, redirections and
// assignments. It looks inside wrappers such as "sh -c", env and sudo.
//
// The package is for decisions about a command line before it runs, so it reports what is certain. It marks as dynamic
// words that are known only at run time (a variable, a substitution, a glob). If it cannot split a part of the line at
// all, the line is unparsed, with the reason. A caller must never allow an unparsed line by its commands, because they
// may be incomplete.
//
// The package does not know which shell will read the line: "sh" is bash on one machine and dash on the next. So it
// reads a line with both grammars. If they disagree, the line is unparsed and has the commands of both readings. After
// an explicit "bash -c" there is only one grammar.
//
// For a line that runs in a folder of this machine (Here), words are expanded: patterns, the values of variables that
// the line sets to known words, loops over them, and the names that xargs and "find -exec" add. argv then holds what
// the program gets. That is certain only if nothing in the line changes how words are read, and no command of it may
// change files before they are expanded. If there is any doubt of that kind, the whole line is read as if the folder
// were not known. What is on the disk is looked at once, before the line runs: a file that something else creates or
// removes meanwhile is not seen, as with symbolic links. The order of names depends on the locale, so a pattern is
// expanded only for programs that do the same with all of them.
//
// If a command runs in another folder than the line, SubCommand.cwd has that folder: the target of "cd X &&", and the
// options of env, sudo, git and make. After a cd that may have failed, the folder is unknown; with Here, what follows
// is reported for both folders. The package ignores a CDPATH that the user's own environment exports.
//
// The package removes git's options before its command: "git -C DIR push" is a push, wrapped in "git -C". For options
// that do more than change the folder ("-c", "--git-dir"), it also keeps the command as given.
//
// Commands that run on another machine, in a container, or through git commands that run other commands, are never
// fully visible. Such a line is unparsed, and contains the most likely commands, so that a deny rule has something to
// match.
//
// The package also knows facts about programs, for callers that judge or remember commands: Risky, Interpreter,
// Generalisable, HarmlessVariable. These are lists; the absence of a program means nothing.
//
// The package knows the syntax of shells and the arguments of common wrappers. It runs nothing and knows no rules. Only
// Here reads anything: names in folders, and the index of a repository. All functions are safe for concurrent use.
package shell

import (
	"slices"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"
	"mvdan.cc/sh/v3/syntax"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

const (
	// MaxLine is the limit of a line that is parsed, in bytes. Longer lines are unparsed.
	MaxLine = 64 << 10

	// maxOpen is the limit of characters that can open a nested construct, and so of the parser's recursion.
	maxOpen = 4096
	// maxNesting is the limit of nested lines: an eval of a "sh -c" of an eval.
	maxNesting = 16
	// maxWrappers is the limit of wrappers around one command.
	maxWrappers = 32
	// maxCommands is the limit of commands in one line.
	maxCommands = 1000
)

// Parse splits a line for an unknown POSIX shell. subs are its simple commands in the order in which they are written,
// a command before those of the substitutions in its words. unparsed is empty, or the reason why subs may be
// incomplete. The line is unparsed if it is over MaxLine, not UTF-8, or not well-formed.
func Parse(line string) (subs []*permissionv1.SubCommand, unparsed string) { return Here{}.Parse(line) }

// Parse is like the function Parse for a line that runs in h. It expands words whose expansion is certain.
func (h Here) Parse(line string) (subs []*permissionv1.SubCommand, unparsed string) {
	return h.readings(func(r *reading) { r.line(line, r.unknown, nil) })
}

// FromArgv splits a command that is executed without a shell. Unless it is a wrapper, the result is the command itself.
func FromArgv(argv []string) (subs []*permissionv1.SubCommand, unparsed string) {
	return Here{}.FromArgv(argv)
}

// FromArgv is like the function FromArgv for a command that is executed in h: it parses a line in the command as
// Here.Parse does.
func (h Here) FromArgv(argv []string) (subs []*permissionv1.SubCommand, unparsed string) {
	return h.fromArgv(argv, false)
}

// Program is like FromArgv for the program that argv starts, without the commands that this program may start: for "sh
// -c LINE" and "env COMMAND", the result is the shell and env. git's options before its command are removed as always.
func (h Here) Program(argv []string) (subs []*permissionv1.SubCommand, unparsed string) {
	return h.fromArgv(argv, true)
}

// StartsOthers reports whether Program and FromArgv may differ: the program is known to start other programs.
func StartsOthers(program string) bool {
	w, known := wrappers[baseName(program)]
	return known && !w.sameProgram()
}

func (h Here) fromArgv(argv []string, alone bool) (subs []*permissionv1.SubCommand, unparsed string) {
	return h.readings(func(r *reading) {
		r.alone = alone
		args := make([]word, len(argv))
		size := 0
		for i, arg := range argv {
			size += len(arg)
			if !utf8.ValidString(arg) {
				r.giveUp("an argument is not UTF-8")
			}
			args[i] = word{text: strings.ToValidUTF8(arg, "\uFFFD")}
		}
		if size > MaxLine {
			r.giveUp("the arguments are too long to be taken apart")
		}
		if len(args) > 0 {
			r.command(call{args: args, grammar: r.unknown})
		}
	})
}

// Quote returns argv as one line that every POSIX shell splits back into argv. NUL characters, which no argument can
// contain, are unchanged.
func Quote(argv []string) string {
	quoted := make([]string, len(argv))
	for i, arg := range argv {
		if quoted[i] = arg; !needsNoQuotes(arg) {
			quoted[i] = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}

func needsNoQuotes(s string) bool {
	return s != "" && !syntax.IsKeyword(s) && !strings.ContainsFunc(s, func(c rune) bool {
		plain := 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.ContainsRune("_-./:@%+", c)
		return !plain
	})
}

// readings calls read with the known folder. If the result is doubtful, it calls read again without it.
func (h Here) readings(read func(*reading)) ([]*permissionv1.SubCommand, string) {
	if d := h.disk(); d != nil {
		if subs, unparsed, lost := bothReadings(d, read); unparsed == "" && !lost {
			return subs, ""
		}
	}
	subs, unparsed, _ := bothReadings(nil, read)
	return subs, unparsed
}

// bothReadings calls read once as bash and once as a plain POSIX shell.
func bothReadings(d *disk, read func(*reading)) (subs []*permissionv1.SubCommand, unparsed string, lost bool) {
	bash, posix := newReading(syntax.LangBash), newReading(syntax.LangPOSIX)
	bash.disk, posix.disk = d, d
	read(bash)
	read(posix)
	bash.finish()
	posix.finish()
	lost = bash.lost || posix.lost
	if slices.EqualFunc(bash.subs, posix.subs, equal) {
		if bash.unparsed == "" && posix.unparsed != "" {
			return bash.subs, posix.unparsed, lost
		}
		return bash.subs, bash.unparsed, lost
	}
	subs = bash.subs
	for _, sub := range posix.subs {
		if !slices.ContainsFunc(bash.subs, func(have *permissionv1.SubCommand) bool { return equal(have, sub) }) {
			subs = append(subs, sub)
		}
	}
	switch {
	case posix.refused && posix.unparsed == "" && len(subs) == len(bash.subs):
		return subs, bash.unparsed, lost
	case bash.unparsed != "":
		return subs, bash.unparsed, lost
	case posix.unparsed != "":
		return subs, "not every shell reads this: " + posix.unparsed, lost
	}
	return subs, "bash and other shells read this differently", lost
}

func equal(a, b *permissionv1.SubCommand) bool { return proto.Equal(a, b) }
