package intent

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// Same reports whether a call (door two) does exactly what a question (door one) asked for, or a part of it, so that the
// answer to the question holds for the call. Whatever is not certain is not the same.
//
// A question about reading, searching or editing files covers reading and listing each of them, one about editing
// covers writing too: the call's file is the question's where both really lead, or by its name if that is known of
// neither. A question about a command covers the same command in the same directory with the same environment, but for
// harmless variables; "sh -c LINE" and LINE are the same, and so are a line of plain words and these words executed.
// Lines are compared byte for byte: "a && b" and "a || b" have the same commands in them. A question about a command
// covers no file, and one about a deletion or a move no write.
//
// What is written into a file is not compared, since an Action does not hold it: see Edits.Make.
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
		if called.GetDoor() == permissionv1.Door_DOOR_KERNEL { // for which removing and moving are writes
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

// SamePart reports whether a process starts one of the commands of a line that was asked about: "npm test" of "cd a && npm
// test". A command with words that are known only at run time is none of them.
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

// isDone reports whether what passes a door is done, and not only asked about.
func isDone(door permissionv1.Door) bool {
	return door == permissionv1.Door_DOOR_CALL || door == permissionv1.Door_DOOR_KERNEL
}

// sameFile compares a call on a file with a question of one of some kinds.
func sameFile(asked, called *permissionv1.Action, kinds ...string) bool {
	return slices.Contains(kinds, asked.GetKind()) && asked.GetCommand() == nil && called.GetCommand() == nil &&
		asked.GetUnparsed() == "" && called.GetUnparsed() == "" && len(called.GetPaths()) > 0 && coveredPaths(asked, called)
}

// coveredPaths reports whether a question's paths cover all of a call's.
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

// NamesAsItLeads reports whether a question names each file of a call as the file that it is: a path that leads elsewhere than
// it reads, by a link that is none of the roots' own, tells a person nothing of what is opened. A command's files are not
// looked at.
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
		!coveredPaths(asked, called), stranger(a, c), !expandedAlike(a, c),
		altered(a.GetText()) || altered(c.GetText()):
		return false
	case asked.GetUnparsed() != "" || a.GetUnparsed() != "":
		return a.GetText() != "" && a.GetText() == c.GetText() && slices.Equal(a.GetArgv(), c.GetArgv())
	}
	askedArgv, askedLine := bare(a)
	calledArgv, calledLine := bare(c)
	return (len(askedArgv) > 0 || askedLine != "") && askedLine == calledLine && slices.Equal(askedArgv, calledArgv)
}

// expandedAlike reports whether the words of a line that were expanded when it was asked about stand for the same now.
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

// stranger reports whether something is known against the called command that was not when it was asked about: its program
// is the workspace's now, or git works on another repository.
func stranger(asked, called *permissionv1.Command) bool {
	known := map[string]bool{"": true}
	for _, sub := range asked.GetSubCommands() {
		known[shell.Strange(sub)] = true
	}
	return slices.ContainsFunc(called.GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return !known[shell.Strange(sub)] })
}

// Doubtful reports whether some command of an action may not be what its words say.
func Doubtful(a *permissionv1.Action) bool {
	return slices.ContainsFunc(a.GetCommand().GetSubCommands(), func(sub *permissionv1.SubCommand) bool { return shell.Doubt(sub) != "" })
}

// altered reports whether the text may not be all that the agent sent, or not as it sent it: what is too long is cut, and
// what is not UTF-8 replaced.
func altered(text string) bool {
	return len(text)+utf8.UTFMax > maxRawInput || strings.ContainsRune(text, utf8.RuneError)
}

// directoryOf is where a command runs; empty if that is not known.
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

// named is the shortest spelling of a path that surely names the same file. One that goes up stays as it is: behind a
// symbolic link that leads elsewhere than it reads.
func named(file string) string {
	if slices.Contains(strings.Split(file, "/"), "..") {
		return file
	}
	return path.Clean(file)
}

// meaningful leaves out the variables that change nothing of what runs.
func meaningful(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), shell.HarmlessVariable)
}

// plainShells run a line as every other shell does: from where the system keeps them, or found by the PATH that both
// sides have alike.
var plainShells = []string{"sh", "bash", "zsh"}

// bare takes the plain shells off a command. What is left is an argv that is executed, or a line for a shell.
func bare(c *permissionv1.Command) (argv []string, line string) {
	argv, line = c.GetArgv(), ""
	if len(argv) == 0 {
		line = c.GetText()
	}
	for range 16 { // no deeper than lines are taken apart
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

// shellLine is the line that argv has a plain shell read, and nothing else: ["bash", "-lc", LINE].
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
