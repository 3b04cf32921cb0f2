package intent

import (
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/safetext"
)

// maxBefore is how many bytes of a title, or of a text, may stand before the command that it shows: what comes later, editors
// cut off.
const maxBefore = 200

// ShowsCommand reports whether the title or a text of a question shows all of its command to whoever reads it: the line, or
// the words, and the directory if that is not the session's. A command with variables that change what runs is not shown:
// editors show no input. a is what Question has returned for tc, and has a command.
func ShowsCommand(a *permissionv1.Action, tc acp.ToolCall) bool {
	c := a.GetCommand()
	argv, line := bare(c)
	spelled := []string{c.GetText(), line}
	if len(argv) > 0 {
		spelled = append(spelled, shell.Quote(argv))
	}
	said := append([]string{tc.Title}, saidIn(tc.Content)...)
	shows := func(what string) bool {
		what = strings.TrimSpace(what)
		return what != "" && slices.ContainsFunc(said, func(text string) bool {
			return safetext.ExactLines(text) == text && standsIn(text, what)
		})
	}
	here := len(a.GetRoots()) > 0 && directoryOf(a) == named(a.GetRoots()[0])
	return len(meaningful(c.GetEnv())) == 0 && slices.ContainsFunc(spelled, shows) && (here || shows(c.GetCwd()))
}

// standsIn reports whether a text has a command on lines or in backticks of its own, or behind a colon: "`make`", "Run: make".
// Within other words it may be another one: "echo make".
func standsIn(text, command string) bool {
	for at := 0; at <= maxBefore; at++ {
		next := strings.Index(text[at:], command)
		if at += next; next < 0 || at > maxBefore {
			return false
		}
		before, after := text[:at], text[at+len(command):]
		begins := before == "" || slices.ContainsFunc([]string{"\n", "`", ": ", "$ "}, func(mark string) bool { return strings.HasSuffix(before, mark) })
		if begins && (after == "" || after[0] == '\n' || after[0] == '`') {
			return true
		}
	}
	return false
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
