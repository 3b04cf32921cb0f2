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

// Bounds of a text that shows a command or a path: clients cut longer texts, and blanks move what follows out of sight.
const (
	maxShown      = 400 // characters up to the end of what is shown
	maxShownLines = 10
	maxBlanks     = 8 // spaces in a row: the indentation of a script
	maxShownPath  = 200
	maxMarks      = 4 // combining marks in a row: more move off what they stand on, or hide it
)

// ShowsCommand reports whether the title or a text of a question shows all of its command to people: the line, or the words,
// and the directory if that is not the session's. A text shows a command that it consists of, in a code block or behind a few
// known words (commandWords). A command with variables that change what runs is not shown: editors show no input. a is what
// Question has returned for tc, and has a command.
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

// ShownFiles are the files of an action that the title or a text of a question names, each by PlaceOf: by its path, or by its
// path below a root. The session's roots themselves count as named. a is what Question has returned for tc.
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

// What may stand before a command, a folder or a file, and behind it, in a text that shows it. Other words may say the
// opposite of it: "in particular not:".
var (
	commandWords = lazyregexp.New(`(?i)^\s*((run(ning)?|exec(ute|uting)?|ran)?\s*(this|the|a)?\s*(bash|sh|zsh|shell|terminal|console|command|script|line)?\s*(command|script|line)?)\s*:?\s*$`)
	folderWords  = lazyregexp.New(`(?i)^\s*#?\s*(in|(working )?(folder|directory|dir)|cwd)?\s*:?\s*$`)
	fileWords    = lazyregexp.New(`(?i)^\s*((read|view|open|show|edit|write|create|update|modify|change|overwrite|replace|delete|remove|list|search|find|access)(ing|e?s)?)?\s*(to|in|from)?\s*(the )?(contents? of )?(text )?(file|folder|directory)?\s*:?\s*$`)
	endOfCommand = lazyregexp.New(`(?i)^\s*(\((low|medium|high)( risk)?\))?\s*$`)
	endOfFile    = lazyregexp.New(`(?i)^\s*[(\[:]?\s*((from )?lines?)?[\s\d,:+–-]*(to \d+)?\s*[)\]]?\s*$`)
)

// marks enclose what a text shows as code.
var marks = []struct{ begin, end string }{
	{"```sh\n", "\n```"}, {"```bash\n", "\n```"}, {"```shell\n", "\n```"}, {"```zsh\n", "\n```"}, {"```console\n", "\n```"}, {"```\n", "\n```"},
	{"`", "`"}, {"\"", "\""}, {"'", "'"}, {"$ ", ""}, {"", ""},
}

// consistsOf reports whether all that a text says is what, in marks or without, between words that change nothing of that; and
// whether people can read it.
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
			return false // nor is it behind another occurrence
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

// isReadable reports whether people who see a text in a client see all of it: a short one, of few lines, without characters
// that cannot be seen, without long blanks, and without two lines in a row that have nothing but blanks and backslashes.
func isReadable(text string) bool {
	return utf8.RuneCountInString(text) <= maxShown && strings.Count(text, "\n") < maxShownLines && safetext.ExactLines(text) == text &&
		!strings.Contains(strings.ReplaceAll(text, "\t", strings.Repeat(" ", maxBlanks/2)), strings.Repeat(" ", maxBlanks+1)) &&
		!emptyLines.MatchString(text) && !manyMarks.MatchString(text)
}

var (
	emptyLines = lazyregexp.New(`\n[ \t\\]*\n[ \t\\]*\n`)
	manyMarks  = lazyregexp.New(fmt.Sprintf(`\p{M}{%d}`, maxMarks+1))
)

// isReadablePath reports whether a path reads as acphost itself would write it: the shortest spelling, in characters that can
// be seen. Of a relative one, that it leads nowhere above.
func isReadablePath(file string) bool {
	return file != "" && utf8.RuneCountInString(file) <= maxShownPath && path.Clean(file) == file && safetext.Exact(file) == file &&
		file != ".." && !strings.HasPrefix(file, "../") && !strings.Contains(file, "  ") && strings.TrimSpace(file) == file &&
		!strings.Contains(file, " /") && !strings.Contains(file, "/ ")
}

// maxSaid is how many bytes of an agent's words about a call are shown beside the call.
const maxSaid = 400

// Said returns what the title and the texts of a tool call say, in one line of at most 400 bytes. It is safe to show, and it is the
// agent's: nothing of it is checked.
func Said(tc acp.ToolCall) string {
	said := strings.Join(append([]string{tc.Title}, saidIn(tc.Content)...), ": ")
	return safetext.Cut(safetext.Line(strings.Trim(said, ": ")), maxSaid)
}

// readTexts returns the title of a question, and the first of its texts, up to the last that people see without scrolling: what
// comes before a text is as short as a text that shows a command. Behind content of another kind, whose height is not known,
// and behind a text with annotations, by which clients may leave it out, nothing counts.
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

// saidIn are the texts in the content of a tool call.
func saidIn(content []byte) (texts []string) {
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
