package intent

import (
	"path"
	"slices"
	"strings"
	"unicode"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
)

// readings are what dialects do beside what their data says. Why is in the notes of each dialect.
var readings = map[dialect.Reading]func(w *claim, tc acp.ToolCall){
	dialect.Requote:         func(w *claim, _ acp.ToolCall) { w.requote() },
	dialect.WordsAskForMore: (*claim).askedInWords,
	dialect.PatchIsShown:    (*claim).patch,
	dialect.Located:         (*claim).located,
	dialect.FoldersFirst:    (*claim).foldersFirst,
	dialect.OnlyExecuteRuns: (*claim).runs,
	dialect.ShellTakenOff:   func(w *claim, _ acp.ToolCall) { w.shellTakenOff() },
}

// requote takes off quotes that should not be there any more: of a line for which one pair is not enough, such as one with
// both a "'" and a "$", a single word in several pairs is left. Rules are to see the line itself. That it is one is a
// guess, so it is never certain.
func (w *claim) requote() {
	if w.line == "" || onePair.MatchString(w.line) {
		return
	}
	word, ok := oneWord(w.line)
	if !ok || word == w.line {
		return
	}
	if same, ok := oneWord(word); ok && same == word {
		return // quoted or not, it is the name of a program
	}
	w.line = word
	w.doubt("the command is quoted once more than it should be")
}

// onePair matches what a single pair of quotes holds, which the adapter takes off: if some are still there, they are the
// line's own.
var onePair = lazyregexp.New(`(?s)^(?:'[^']*'|"(?:[^"\\]|\\.)*")$`)

// oneWord is the word that a line consists of.
func oneWord(line string) (word string, ok bool) {
	parts, why := shell.Parse(line)
	if why != "" || len(parts) != 1 || len(parts[0].GetArgv()) != 1 || parts[0].GetDynamic() ||
		len(parts[0].GetRedirections())+len(parts[0].GetAssignments())+len(parts[0].GetWrappers()) > 0 {
		return "", false
	}
	return parts[0].GetArgv()[0], true
}

// askedInWords doubts a command if the content of its question has words in it, unless the input has all that they say.
func (w *claim) askedInWords(tc acp.ToolCall) {
	if !w.named() || w.whole {
		return
	}
	_ = acp.Elements(tc.Content, func(v []byte) bool {
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind == "content" {
			w.doubt("the agent asks for more than the command: what, the question says in words alone")
		}
		return true
	})
}

// patch tells what a patch does beside changing files, and whether all of it is shown.
func (w *claim) patch(tc acp.ToolCall) {
	if w.named() || len(w.paths) > 0 {
		return
	}
	var shown, named []string
	_ = acp.Elements(tc.Content, func(v []byte) bool { // what cannot be read is said where the paths are taken
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind != "diff" {
			return true
		}
		if file, ok := acp.Exact(acp.Get(v, "path")); ok && !slices.Contains(shown, file) {
			shown = append(shown, file)
		}
		if what, _ := acp.Exact(acp.Get(v, "_meta", "kind")); what == "delete" {
			w.doubt(deletes)
		}
		return true
	})
	_ = acp.Elements(tc.Locations, func(v []byte) bool {
		if file, ok := acp.Exact(acp.Get(v, "path")); ok && !slices.Contains(named, file) {
			named = append(named, file)
		}
		return true
	})
	switch {
	case tc.Kind != "edit" && len(shown) == 0:
	case len(shown) < len(named):
		w.doubt("the patch is not shown in full, and what is not shown may move a file anywhere")
	case slices.ContainsFunc(named, func(file string) bool { return !slices.Contains(shown, file) }):
		w.doubt(moves)
	}
}

// located takes over where a command runs from the report of it, if its question leaves that out.
func (w *claim) located(tc acp.ToolCall) {
	if !w.named() || len(w.cwd) > 0 {
		return
	}
	if line, ok := acp.Exact(acp.Get(tc.Reported, "command")); ok && line == w.line {
		for _, name := range [...]string{"workdir", "cwd"} {
			if dir, _ := acp.Exact(acp.Get(tc.Reported, name)); dir != "" {
				w.cwd = append(w.cwd, dir)
				return
			}
		}
	}
	w.doubt("the agent does not say in which directory the command runs")
}

// foldersFirst takes a question about the folders of a command for one about the command.
func (w *claim) foldersFirst(tc acp.ToolCall) {
	w.folders = tc.Kind == "other" && len(acp.LocationPaths(tc.Locations)) > 0
}

// runs doubts a command in what the agent does not call one: it is another tool's, an MCP server's say, and what that
// does with it, and where, is not known.
func (w *claim) runs(tc acp.ToolCall) {
	if w.named() && tc.Kind != "execute" && !w.folders {
		w.doubt("the agent names a command and does not call this one")
	}
}

// shellTakenOff doubts a line that begins with a shell. The agent takes "bash -c" off, and a pair of quotes around all
// that follows: "bash -c 'ls' | grep '; rm x; '" has a shell run ls, and the agent run rm. It also takes off spaces that are
// part of a word to a shell, such as one that does not break, and puts a space behind a backslash at the end.
func (w *claim) shellTakenOff() {
	const shellSpaces = " \t\n"
	line := strings.Trim(w.line, shellSpaces)
	if line != strings.TrimFunc(line, func(r rune) bool { return unicode.IsSpace(r) || r == '\uFEFF' }) || strings.HasSuffix(line, `\`) {
		w.doubt("the line begins or ends with a character that the agent takes off or adds to")
	}
	words := strings.Fields(w.line)
	if len(words) == 0 {
		return
	}
	switch strings.TrimSuffix(path.Base(strings.ToLower(words[0])), ".exe") {
	case "sh", "bash", "zsh", "cmd", "powershell", "pwsh":
		w.doubt("the line begins with a shell, and the agent runs it in another way than a shell does")
	}
}
