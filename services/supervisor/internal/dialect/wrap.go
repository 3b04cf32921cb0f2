package dialect

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
)

// Wrap describes how an agent wraps a command line in a line of its own for a shell: the command line is one quoted
// word, with text of the agent before and after it ("source FILE && eval 'LINE' && pwd").
type Wrap struct {
	// Options are the options of the shell between its name and the line: ["-c", "-l"].
	Options []string `json:"options"`
	// Before is the text before the quoted line, and After the text after it. A "*" is the name of a file: only
	// letters, digits and "/._-~+".
	Before string `json:"before"`
	// Repeated arguments may follow Before in any number, and Last may follow them. Empty means none. A "*" is as
	// above.
	Repeated string `json:"repeated"`
	Last     string `json:"last"`
	After    string `json:"after"`
	// Raw means that the line is not quoted. A line that could contain the text after it is not unwrapped.
	Raw bool `json:"raw"`
}

// wrapShells are the shells that agents start.
var wrapShells = []string{"sh", "bash", "zsh", "dash"}

// Unwrap removes the wrapping. head is the shell with its options, line is the line that the shell runs. It returns
// false for a line that is not wrapped in exactly this way, and for one with a file that kept does not report as the
// agent's own, because the shell reads or writes these files, too.
func (w Wrap) Unwrap(head []string, line string, kept func(file string) bool) (inner string, ok bool) {
	if len(head) != len(w.Options)+1 || !slices.Equal(head[1:], w.Options) || !isShell(head[0]) {
		return "", false
	}
	names := func(string) bool { return true }
	rest, ok := cutPattern(line, w.Before, kept)
	for again := ok && w.Repeated != ""; again; {
		var more string
		if more, again = cutPattern(rest, w.Repeated, names); again {
			rest = more
		}
	}
	if ok {
		rest, ok = cutPattern(rest, w.Last, kept)
	}
	if ok && w.Raw {
		inner, ok = strings.CutSuffix(rest, w.After)
		return inner, ok && strings.TrimSpace(inner) != "" && !strings.HasSuffix(inner, "\\") && !strings.Contains(inner, "<<")
	}
	if !ok || !strings.HasPrefix(rest, "'") {
		return "", false
	}
	end := quoted(rest)
	words, plain := shell.Words(rest[:end])
	if after, ok := cutPattern(rest[end:], w.After, kept); !ok || after != "" || !plain || len(words) != 1 || strings.TrimSpace(words[0]) == "" {
		return "", false
	}
	return words[0], true
}

// isShell reports whether a program is one of the system's shells.
func isShell(program string) bool {
	dir, name := path.Split(program)
	return slices.Contains(wrapShells, name) && (dir == "" || dir == "/bin/" || dir == "/usr/bin/")
}

// cutPattern removes a pattern from the beginning of text. Each "*" matches as much as possible, and is must return
// true for it.
func cutPattern(text, pattern string, is func(string) bool) (rest string, ok bool) {
	for i, part := range strings.Split(pattern, "*") {
		if i > 0 {
			n := len(text) - len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~+"))
			if n == 0 || !is(text[:n]) {
				return "", false
			}
			text = text[n:]
		}
		if text, ok = strings.CutPrefix(text, part); !ok {
			return "", false
		}
	}
	return text, true
}

// quoted returns the end of the word in single quotes that text begins with. A quote in the word is written as '"'"' or
// '\”.
func quoted(text string) int {
	at := 0
	for {
		end := strings.IndexByte(text[at+1:], '\'')
		if end < 0 {
			return len(text)
		}
		at += end + 2
		switch rest := text[at:]; {
		case strings.HasPrefix(rest, `"'"'`):
			at += 3
		case strings.HasPrefix(rest, `\''`):
			at += 2
		default:
			return at
		}
	}
}
