package intent

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Same reports whether a call does exactly what a permission request asked for, or a part of it, so that the answer to
// the request applies to the call. If this is not certain, the result is false.
//
// A request to read, search or edit files covers reading and listing each of them, and one to edit covers writing, too.
// The files are the same if both resolve to the same path, or have the same name if neither is resolved. A request for
// a command covers the same command in the same directory with the same environment, except for harmless variables. "sh
// -c LINE" equals LINE, and a line of plain words equals these words executed. Lines are compared byte for byte,
// because "a && b" and "a || b" contain the same commands. A request for a command covers no file access, and a request
// to delete or move covers no write.
//
// The written content is not compared, because an Action does not contain it: see Edits.Make.
func Same(asked, called *permissionv1.Action) bool {
	switch {
	case asked.GetDoor() != permissionv1.Door_DOOR_REQUEST || !isDone(called.GetDoor()),
		asked.GetAgent() != called.GetAgent() || asked.GetSessionId() != called.GetSessionId(),
		asked.GetDone() || called.GetDone():
		return false
	}
	switch called.GetKind() {
	case "fs.read", "fs.list":
		return sameFile(asked, called, "tool.read", "tool.search", "tool.edit")
	case "fs.write":
		if called.GetDoor() == permissionv1.Door_DOOR_KERNEL { // at which removals and moves are writes
			return sameFile(asked, called, "tool.edit", "tool.delete", "tool.move")
		}
		return sameFile(asked, called, "tool.edit")
	case "terminal.create":
		return asked.GetKind() == "tool.execute" && sameCommand(asked, called)
	case "net.connect":
		return sameMachine(asked, called)
	}
	return false
}

// SamePart reports whether a process starts one of the commands of the requested line: "npm test" of "cd a && npm
// test". A command with words that are known only at run time is not the same.
func SamePart(asked, called *permissionv1.Action) bool {
	a, c := asked.GetCommand(), called.GetCommand()
	if asked.GetDoor() != permissionv1.Door_DOOR_REQUEST || called.GetDoor() != permissionv1.Door_DOOR_KERNEL ||
		asked.GetKind() != "tool.execute" || len(c.GetSubCommands()) != 1 ||
		asked.GetAgent() != called.GetAgent() || asked.GetSessionId() != called.GetSessionId() ||
		asked.GetUnparsed()+a.GetUnparsed()+called.GetUnparsed()+c.GetUnparsed() != "" ||
		!slices.Equal(meaningful(a.GetEnv()), meaningful(c.GetEnv())) || !coveredPaths(asked, called) {
		return false
	}
	from := directoryOf(asked)
	return from != "" && slices.ContainsFunc(a.GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		dir := sub.GetCwd()
		if !path.IsAbs(dir) {
			dir = path.Join(from, dir)
		}
		return slices.Equal(sub.GetArgv(), c.GetArgv()) && !sub.GetDynamic() && !sub.GetCwdUnknown() &&
			len(sub.GetWrappers())+len(sub.GetAssignments())+len(sub.GetPossibleWords()) == 0 &&
			named(dir) == directoryOf(called) && shell.Strange(sub) == shell.Strange(c.GetSubCommands()[0])
	})
}

// isDone reports whether an action is performed, and not only requested.
func isDone(door permissionv1.Door) bool {
	return door == permissionv1.Door_DOOR_CALL || door == permissionv1.Door_DOOR_KERNEL
}

// sameFile compares a call on a file with a request of one of the kinds.
func sameFile(asked, called *permissionv1.Action, kinds ...string) bool {
	return slices.Contains(kinds, asked.GetKind()) && asked.GetCommand() == nil && called.GetCommand() == nil &&
		asked.GetUnparsed() == "" && called.GetUnparsed() == "" && len(called.GetPaths()) > 0 && coveredPaths(asked, called)
}

// coveredPaths reports whether a request's paths cover all paths of a call.
func coveredPaths(asked, called *permissionv1.Action) bool {
	return !slices.ContainsFunc(called.GetPaths(), func(p *permissionv1.PathAccess) bool {
		covers := func(of *permissionv1.PathAccess) bool { return coversPath(of, p) }
		return p.GetProtected() || !slices.ContainsFunc(asked.GetPaths(), covers)
	})
}

func coversPath(asked, called *permissionv1.PathAccess) bool {
	switch called.GetAccess() {
	case permissionv1.Access_ACCESS_READ:
		if asked.GetAccess() == permissionv1.Access_ACCESS_UNSPECIFIED {
			return false
		}
	case permissionv1.Access_ACCESS_WRITE:
		if asked.GetAccess() != permissionv1.Access_ACCESS_WRITE {
			return false
		}
	default:
		return false
	}
	to, of := called.GetResolvedPath(), asked.GetResolvedPath()
	if to == "" && of == "" {
		to, of = called.GetPath(), asked.GetPath()
	}
	return path.IsAbs(to) && path.IsAbs(of) && !asked.GetProtected() && named(to) == named(of)
}

// NamesAsItLeads reports whether a request names each file of a call by its real path. Links of the session's roots do
// not count. Through other links, the path would not show a person which file is opened. The files of a command are not
// compared.
func NamesAsItLeads(asked, called *permissionv1.Action) bool {
	return called.GetCommand() != nil || !slices.ContainsFunc(called.GetPaths(), func(p *permissionv1.PathAccess) bool {
		return !slices.ContainsFunc(asked.GetPaths(), func(q *permissionv1.PathAccess) bool {
			return PlaceOf(q) == PlaceOf(p) && (q.GetResolvedPath() == "" || SameBelow(asked, q.GetPath(), q.GetResolvedPath()))
		})
	})
}

func sameCommand(asked, called *permissionv1.Action) bool {
	a, c := asked.GetCommand(), called.GetCommand()
	switch {
	case a == nil || c == nil,
		asked.GetUnparsed() != called.GetUnparsed() || a.GetUnparsed() != c.GetUnparsed(),
		directoryOf(asked) == "" || directoryOf(asked) != directoryOf(called),
		!slices.Equal(meaningful(a.GetEnv()), meaningful(c.GetEnv())),
		!coveredPaths(asked, called), isLessTrusted(a, c), !expandedAlike(a, c),
		altered(a.GetText()) || altered(c.GetText()):
		return false
	case asked.GetUnparsed() != "" || a.GetUnparsed() != "":
		return a.GetText() != "" && a.GetText() == c.GetText() && slices.Equal(a.GetArgv(), c.GetArgv())
	}
	askedArgv, askedLine := bare(a)
	calledArgv, calledLine := bare(c)
	return (len(askedArgv) > 0 || askedLine != "") && askedLine == calledLine && slices.Equal(askedArgv, calledArgv)
}

// expandedAlike reports whether the expanded words of a line still have the same values as in the request.
func expandedAlike(asked, called *permissionv1.Command) bool {
	words := func(c *permissionv1.Command) []string {
		var all []string
		for _, sub := range c.GetSubCommands() {
			if sub.GetWritten() != "" {
				all = append(all, sub.GetWritten(), sub.GetCwd(), shell.Quote(sub.GetArgv()))
			}
		}
		return all
	}
	were := words(asked)
	return len(were) == 0 || slices.Equal(were, words(called))
}

// isLessTrusted reports whether the called command is less trusted than the requested one: its program is now one of
// the workspace's files, or git uses another repository.
func isLessTrusted(asked, called *permissionv1.Command) bool {
	known := map[string]bool{"": true}
	for _, sub := range asked.GetSubCommands() {
		known[shell.Strange(sub)] = true
	}
	return slices.ContainsFunc(called.GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return !known[shell.Strange(sub)] })
}

// Doubtful reports whether the real effect of a command may differ from its words.
func Doubtful(a *permissionv1.Action) bool {
	return slices.ContainsFunc(a.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return shell.Doubt(sub) != "" })
}

// altered reports whether the text may be incomplete, or changed: long texts are cut, and invalid UTF-8 is replaced.
func altered(text string) bool {
	return len(text)+utf8.UTFMax > maxRawInput || strings.ContainsRune(text, utf8.RuneError)
}

// directoryOf returns the directory of a command; empty if unknown.
func directoryOf(a *permissionv1.Action) string {
	dir := a.GetCommand().GetCwd()
	if dir == "" && len(a.GetRoots()) > 0 {
		dir = a.GetRoots()[0]
	}
	if !path.IsAbs(dir) {
		return ""
	}
	return named(dir)
}

// named returns the shortest spelling that certainly names the same file. A path with ".." is returned unchanged,
// because a symbolic link may come before it.
func named(file string) string {
	if slices.Contains(strings.Split(file, "/"), "..") {
		return file
	}
	return path.Clean(file)
}

// meaningful returns the variables that may change what runs.
func meaningful(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), shell.HarmlessVariable)
}

// plainShells are the shells without special behavior. They run from the system's directories, or are found by the PATH
// that both sides share.
var plainShells = []string{"sh", "bash", "zsh"}

// bare strips the plain shells from a command. The result is an argv to execute, or a line for a shell.
func bare(c *permissionv1.Command) (argv []string, line string) {
	argv, line = c.GetArgv(), ""
	if len(argv) == 0 {
		line = c.GetText()
	}
	for range 16 { // the depth limit of the parser
		if len(argv) == 0 {
			words, ok := shell.Words(line)
			if !ok {
				return nil, line
			}
			argv = words
		}
		inner, ok := shellLine(argv)
		if !ok {
			return argv, ""
		}
		argv, line = nil, inner
	}
	return argv, line
}

// shellLine returns the line of an argv that only has a plain shell run that line: ["bash", "-lc", LINE].
func shellLine(argv []string) (line string, ok bool) {
	if len(argv) != 3 || (argv[1] != "-c" && argv[1] != "-lc") || argv[2] == "" {
		return "", false
	}
	program := strings.TrimPrefix(strings.TrimPrefix(argv[0], "/usr"), "/bin/")
	if !slices.Contains(plainShells, program) || (program == "sh" && argv[1] != "-c") {
		return "", false
	}
	return argv[2], true
}
