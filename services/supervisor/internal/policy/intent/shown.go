package intent

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/acphost/acphost/internal/lazyregexp"
	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Bounds of a text that shows a command or a path: clients cut longer texts, and long blanks move the following text
// out of sight.
const (
	maxShown      = 400 // characters up to the end of the shown command or path
	maxShownLines = 10
	maxBlanks     = 8 // spaces in a row: the indentation of a script
	maxShownPath  = 200
	maxMarks      = 4 // combining marks in a row: more can hide the character
)

// ShowsCommand reports whether the title or a text of a permission request shows its whole command to people: the line,
// or the words, and the directory unless it is the session's. The text must consist of the command, in a code block or
// after a few known words (commandWords). A command with variables that change what runs is never shown, because
// editors do not display the input. a is the action that Question returned for tc, and has a command.
func ShowsCommand(a *permissionv1.Action, tc acp.ToolCall) bool {
	c := a.GetCommand()
	argv, line := bare(c)
	spelled := []string{c.GetText(), line}
	if len(argv) > 0 {
		spelled = append(spelled, shell.Quote(argv))
	}
	said := readTexts(tc)
	shows := func(what string, introductions *lazyregexp.Regexp) bool {
		return slices.ContainsFunc(said, func(text string) bool { return consistsOf(text, what, introductions, endOfCommand) })
	}
	command := func(what string) bool { return shows(what, commandWords) }
	here := len(a.GetRoots()) > 0 && directoryOf(a) == named(a.GetRoots()[0])
	return len(meaningful(c.GetEnv())) == 0 && slices.ContainsFunc(spelled, command) && (here || shows(c.GetCwd(), folderWords))
}

// ShownFiles returns the files of an action that the title or a text of a permission request names, keyed by PlaceOf. A
// file is named by its path, or by its path below a root. The session's roots count as named. a is the action that
// Question returned for tc.
func ShownFiles(a *permissionv1.Action, tc acp.ToolCall) map[string]bool {
	said := readTexts(tc)
	shown := map[string]bool{}
	for _, p := range a.GetPaths() {
		spelled := []string{p.GetPath(), p.GetResolvedPath()}
		for _, root := range slices.Concat(a.GetRoots(), a.GetResolvedRoots()) {
			for _, file := range []string{p.GetPath(), p.GetResolvedPath()} {
				switch below, is := strings.CutPrefix(file, strings.TrimSuffix(root, "/")+"/"); {
				case root == "":
				case is:
					spelled = append(spelled, below, "./"+below)
				case file == root:
					shown[PlaceOf(p)] = true
				}
			}
		}
		if slices.ContainsFunc(spelled, func(file string) bool {
			return isReadablePath(strings.TrimPrefix(file, "./")) && slices.ContainsFunc(said, func(text string) bool {
				return consistsOf(text, file, fileWords, endOfFile)
			})
		}) {
			shown[PlaceOf(p)] = true
		}
	}
	return shown
}

// The words that may precede or follow a command, a folder or a file in a text that shows it. Other words could negate
// it: "in particular not:".
var (
	commandWords = lazyregexp.New(`(?i)^\s*((run(ning)?|exec(ute|uting)?|ran)?\s*(this|the|a)?\s*(bash|sh|zsh|shell|terminal|console|command|script|line)?\s*(command|script|line)?)\s*:?\s*$`)
	folderWords  = lazyregexp.New(`(?i)^\s*#?\s*(in|(working )?(folder|directory|dir)|cwd)?\s*:?\s*$`)
	fileWords    = lazyregexp.New(`(?i)^\s*((read|view|open|show|edit|write|create|update|modify|change|overwrite|replace|delete|remove|list|search|find|access)(ing|e?s)?)?\s*(to|in|from)?\s*(the )?(contents? of )?(text )?(file|folder|directory)?\s*:?\s*$`)
	endOfCommand = lazyregexp.New(`(?i)^\s*(\((low|medium|high)( risk)?\))?\s*$`)
	endOfFile    = lazyregexp.New(`(?i)^\s*[(\[:]?\s*((from )?lines?)?[\s\d,:+–-]*(to \d+)?\s*[)\]]?\s*$`)
)

// marks are the delimiters of code in a text.
var marks = []struct{ begin, end string }{
	{"```sh\n", "\n```"}, {"```bash\n", "\n```"}, {"```shell\n", "\n```"}, {"```zsh\n", "\n```"}, {"```console\n", "\n```"}, {"```\n", "\n```"},
	{"`", "`"}, {"\"", "\""}, {"'", "'"}, {"$ ", ""}, {"", ""},
}

// consistsOf reports whether a text consists of what, with or without code marks, between words that do not change its
// meaning, and is readable.
func consistsOf(text, what string, before, after *lazyregexp.Regexp) bool {
	if what = strings.TrimSpace(what); what == "" || !isReadable(what) {
		return false
	}
	for from := 0; ; from++ {
		next := strings.Index(text[from:], what)
		if next < 0 {
			return false
		}
		from += next
		head, tail := text[:from], text[from+len(what):]
		if !isReadable(head + what) {
			return false // a later occurrence is not readable either
		}
		for _, m := range marks {
			introduced, begins := strings.CutSuffix(head, m.begin)
			rest, ends := strings.CutPrefix(tail, m.end)
			if begins && ends && before.MatchString(introduced) && after.MatchString(rest) && len(tail) <= maxShown &&
				(m.begin != "" || introduced == "" || strings.ContainsAny(introduced[len(introduced)-1:], " \n:")) {
				return true
			}
		}
	}
}

// isReadable reports whether clients show a text completely: it is short, has few lines, no invisible characters, no
// long blanks, and no two consecutive lines of only blanks and backslashes.
func isReadable(text string) bool {
	return utf8.RuneCountInString(text) <= maxShown && strings.Count(text, "\n") < maxShownLines && safetext.ExactLines(text) == text &&
		!strings.Contains(strings.ReplaceAll(text, "\t", strings.Repeat(" ", maxBlanks/2)), strings.Repeat(" ", maxBlanks+1)) &&
		!emptyLines.MatchString(text) && !manyMarks.MatchString(text)
}

var (
	emptyLines = lazyregexp.New(`\n[ \t\\]*\n[ \t\\]*\n`)
	manyMarks  = lazyregexp.New(fmt.Sprintf(`\p{M}{%d}`, maxMarks+1))
)

// isReadablePath reports whether a path has the form in which acphost writes it: the shortest spelling, of visible
// characters. A relative path must not begin with "..".
func isReadablePath(file string) bool {
	return file != "" && utf8.RuneCountInString(file) <= maxShownPath && path.Clean(file) == file && safetext.Exact(file) == file &&
		file != ".." && !strings.HasPrefix(file, "../") && !strings.Contains(file, "  ") && strings.TrimSpace(file) == file &&
		!strings.Contains(file, " /") && !strings.Contains(file, "/ ")
}

// maxSaid bounds the agent's text that is shown with a call, in bytes.
const maxSaid = 400

// Said returns the title and the texts of a tool call in one line of at most 400 bytes. It is safe to display, but it
// is the agent's text and not verified.
func Said(tc acp.ToolCall) string {
	said := strings.Join(append([]string{tc.Title}, textsOf(tc.Content)...), ": ")
	return safetext.Cut(safetext.Line(strings.Trim(said, ": ")), maxSaid)
}

// readTexts returns the title of a permission request and its first texts, as far as people see them without scrolling.
// The texts before one must be as short as a text that shows a command. Texts after content of another kind do not
// count, because its height is unknown. Neither do texts after one with annotations, because clients may hide it.
func readTexts(tc acp.ToolCall) []string {
	texts := []string{tc.Title}
	characters, lines := 0, 0
	_ = acp.Elements(tc.Content, func(v []byte) bool {
		last := texts[len(texts)-1]
		characters, lines = characters+utf8.RuneCountInString(last), lines+1+strings.Count(last, "\n")
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind != "content" || characters > maxShown || lines >= maxShownLines {
			return false
		}
		text, ok := acp.String(acp.Get(v, "content", "text"))
		if !ok || acp.Get(v, "annotations") != nil || acp.Get(v, "content", "annotations") != nil {
			return false
		}
		texts = append(texts, text)
		return true
	})
	return texts
}

// textsOf returns the texts in the content of a tool call.
func textsOf(content []byte) (texts []string) {
	_ = acp.Elements(content, func(v []byte) bool {
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind == "content" {
			if text, ok := acp.String(acp.Get(v, "content", "text")); ok {
				texts = append(texts, text)
			}
		}
		return true
	})
	return texts
}
