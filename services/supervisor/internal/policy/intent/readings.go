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

// readings are the interpretations of dialects that need code. The notes of each dialect explain them.
var readings = map[dialect.Reading]func(w *claim, tc acp.ToolCall){
	dialect.Requote:         func(w *claim, _ acp.ToolCall) { w.requote() },
	dialect.WordsAskForMore: (*claim).askedInWords,
	dialect.PatchIsShown:    (*claim).patch,
	dialect.Located:         (*claim).located,
	dialect.FoldersFirst:    (*claim).foldersFirst,
	dialect.OnlyExecuteRuns: (*claim).runs,
	dialect.ShellTakenOff:   func(w *claim, _ acp.ToolCall) { w.shellTakenOff() },
}

// requote removes quotes that the adapter should have removed. The adapter removes one pair, which is not enough for a
// line with both a "'" and a "$", which becomes a single word in several pairs. Rules must match the line itself. The
// result is a guess, so it adds a doubt.
func (w *claim) requote() {
	if w.line == "" || onePair.MatchString(w.line) {
		return
	}
	word, ok := oneWord(w.line)
	if !ok || word == w.line {
		return
	}
	if same, ok := oneWord(word); ok && same == word {
		return // a program's name, quoted or not
	}
	w.line = word
	w.doubt("the command is quoted once more than it should be")
}

// onePair matches the content of a single pair of quotes. The adapter removes such a pair, so remaining quotes are the
// line's own.
var onePair = lazyregexp.New(`(?s)^(?:'[^']*'|"(?:[^"\\]|\\.)*")$`)

// oneWord returns the only word of a line; false if there are more.
func oneWord(line string) (word string, ok bool) {
	parts, why := shell.Parse(line)
	if why != "" || len(parts) != 1 || len(parts[0].GetArgv()) != 1 || parts[0].GetDynamic() ||
		len(parts[0].GetRedirections())+len(parts[0].GetAssignments())+len(parts[0].GetWrappers()) > 0 {
		return "", false
	}
	return parts[0].GetArgv()[0], true
}

// askedInWords adds a doubt to a command if the content of its permission request has text, unless the input holds the
// whole request.
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

// patch adds a doubt for each change of a patch other than edits, and if the patch is not shown in full.
func (w *claim) patch(tc acp.ToolCall) {
	if w.named() || len(w.paths) > 0 {
		return
	}
	var shown, named []string
	_ = acp.Elements(tc.Content, func(v []byte) bool { // unreadable content adds a doubt where the paths are read
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

// located sets the command's directory from an earlier report if its permission request does not have it.
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

// foldersFirst reads a permission request for the folders of a command as a request for the command.
func (w *claim) foldersFirst(tc acp.ToolCall) {
	w.folders = tc.Kind == "other" && len(acp.LocationPaths(tc.Locations)) > 0
}

// runs adds a doubt to a command in a tool that the agent does not call a command tool: it belongs to another tool, for
// example of an MCP server, and how that tool executes it is unknown.
func (w *claim) runs(tc acp.ToolCall) {
	if w.named() && tc.Kind != "execute" && !w.folders {
		w.doubt("the agent names a command and does not call this one")
	}
}

// shellTakenOff adds a doubt to a line that begins with a shell. The agent removes "bash -c" and a pair of quotes
// around the rest: from "bash -c 'ls' | grep '; rm x; '", a shell would run ls, but the agent runs rm. The agent also
// removes blanks that are part of a word for a shell, such as no-break spaces, and appends a space after a final
// backslash.
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
