package git

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/wordset"
)

// HarmlessSteps returns "" if git runs no command because of a new content of a file by which it continues a rebase, a
// cherry-pick or a revert (see Steps). Otherwise it returns a reason: the first line or setting that names a command,
// or that the file is not well-formed. before is the present content, nil if there is none: a line of a todo list that
// it has too is harmless, because git writes the remaining lines after each step. Removing the file is an empty data.
// file is the path of the file. The file system is not read.
func HarmlessSteps(file string, data, before []byte) (why string) {
	switch name := spelled(file[strings.LastIndexByte(file, '/')+1:]); name {
	case "strategy":
		if text := strings.TrimRight(string(data), "\n"); text != "" && !strategies[text] {
			return "the strategy of the rebase"
		}
		return ""
	case "opts":
		return harmlessOptions(data)
	}
	return harmlessTodo(string(data), string(before))
}

var (
	// strategies are git's own programs for merges. Any other name can be a program's in a folder of the work tree:
	// "git-merge-x/y".
	strategies = wordset.Of("ort recursive octopus resolve ours subtree")
	// todoCommands are the commands of a todo list that run no program other than git and the user's editor. "exec"
	// runs one.
	todoCommands = wordset.Of(`pick p reword r edit e squash s fixup f drop d break b label l reset t merge m noop
		revert`)
)

// SandboxVariable is the variable that processes in a sandbox of acphost have, with any value. GuardSteps needs it.
const SandboxVariable = "ACPHOST_SANDBOX"

// guard begins a command of a todo list that runs only with SandboxVariable: otherwise the shell prints the words and
// exits, so that the rebase stops there.
const guard = `: "${` + SandboxVariable + `:?an agent wrote this command, and only the sandbox of acphost runs it}"; `

// GuardSteps returns the content of a todo list with a guard before each command ("exec") that before does not have. A
// guarded command runs in the sandbox of acphost and, if the user continues the rebase outside of the sandbox, stops
// the rebase. Files other than todo lists are returned as they are. Parameters are as in HarmlessSteps.
func GuardSteps(file string, data, before []byte) []byte {
	if name := spelled(file[strings.LastIndexByte(file, '/')+1:]); name == "strategy" || name == "opts" {
		return data
	}
	present := presentSteps(string(before))
	var guarded strings.Builder
	for line := range strings.Lines(string(data)) {
		bare := strings.Trim(line, " \t\r\n")
		name, command, _ := strings.Cut(strings.ReplaceAll(bare, "\t", " "), " ")
		isExec := (name == "exec" || name == "x") && strings.TrimSpace(command) != ""
		if present.take(bare) || !isExec || isGuarded(line) {
			guarded.WriteString(line)
			continue
		}
		guarded.WriteString("exec " + guard + strings.TrimLeft(bare[len(name):], " \t") + "\n")
	}
	return []byte(guarded.String())
}

// isGuarded reports whether a line of a todo list is a command with the guard. The form is exact: a shell reads other
// blanks as part of a name.
func isGuarded(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, " \t"), "exec "+guard)
}

// steps are lines of a todo list, each as often as it has it.
type steps []string

func presentSteps(list string) (all steps) {
	for line := range strings.Lines(list) {
		all = append(all, strings.TrimSpace(line))
	}
	return all
}

// take removes a line, and reports whether it was there.
func (s *steps) take(line string) bool {
	i := slices.Index(*s, line)
	if i >= 0 {
		*s = slices.Delete(*s, i, i+1)
	}
	return i >= 0
}

// maxShown limits a line of a todo list in a reason, in bytes.
const maxShown = 100

// harmlessTodo is HarmlessSteps for a todo list.
func harmlessTodo(data, before string) (why string) {
	if strings.ContainsRune(data, 0) {
		return "a todo list that " + errSyntax.Error()
	}
	present := presentSteps(before)
	for line := range strings.Lines(data) {
		if isGuarded(line) {
			continue
		}
		line = strings.TrimSpace(line)
		if !isHarmlessStep(line) && !present.take(line) {
			return "the todo list: " + strings.ToValidUTF8(line[:min(len(line), maxShown)], "")
		}
	}
	return ""
}

func isHarmlessStep(line string) bool {
	if line == "" || line[0] == '#' {
		return true
	}
	words := strings.Fields(line)
	if words[0] == "update-ref" || words[0] == "u" {
		return len(words) == 2 && strings.HasPrefix(words[1], "refs/heads/")
	}
	return todoCommands[words[0]]
}

// harmlessOptions is HarmlessSteps for the options of a cherry-pick or a revert, which are in the form of a
// configuration.
func harmlessOptions(data []byte) (why string) {
	all, err := exactSettings(data)
	if err != nil {
		return "the options of a cherry-pick, in a file that " + err.Error()
	}
	for _, s := range all {
		known := stepOptions[s.key] || s.key == "strategy" && strategies[s.value]
		if s.section != "options" || s.sub != "" || !known {
			return s.name()
		}
	}
	return ""
}

// stepOptions are the options besides the strategy. No value of theirs names a program: the options of a strategy go to
// one of git's own.
var stepOptions = wordset.Of(`no-commit edit allow-empty allow-empty-message drop-redundant-commits
	keep-redundant-commits signoff record-origin allow-ff mainline strategy-option gpg-sign allow-rerere-auto default-msg-cleanup`)
