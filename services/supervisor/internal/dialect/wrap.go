package dialect

import (
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/shell"
)

// Wrap is how an agent wraps a command line in one of its own, which it has a shell run: the line is one word in quotes, with
// words of the agent's before and after it ("source FILE && eval 'LINE' && pwd").
type Wrap struct {
	// Options are the shell's, between its name and the line: ["-c", "-l"].
	Options []string `json:"options"`
	// Before is what stands before the quoted line, and After what stands after it. A "*" is a name of a file: letters, digits and
	// "/._-~+" alone.
	Before string `json:"before"`
	After  string `json:"after"`
}

// wrapShells are the shells that agents start.
var wrapShells = []string{"sh", "bash", "zsh", "dash"}

// Unwrap takes the wrapping off: head is the shell and its options, line what the shell runs. It reports false for a line that is
// not wrapped in just this way.
func (w Wrap) Unwrap(head []string, line string) (inner string, ok bool) {
	if len(head) != len(w.Options)+1 || !slices.Equal(head[1:], w.Options) || !isShell(head[0]) {
		return "", false
	}
	rest, ok := cutPattern(line, w.Before)
	if !ok || !strings.HasPrefix(rest, "'") {
		return "", false
	}
	end := quoted(rest)
	words, plain := shell.Words(rest[:end])
	if after, ok := cutPattern(rest[end:], w.After); !ok || after != "" || !plain || len(words) != 1 || strings.TrimSpace(words[0]) == "" {
		return "", false
	}
	return words[0], true
}

// isShell reports whether a program is one of the system's shells.
func isShell(program string) bool {
	dir, name := path.Split(program)
	return slices.Contains(wrapShells, name) && (dir == "" || dir == "/bin/" || dir == "/usr/bin/")
}

// cutPattern takes a pattern off the beginning of text. Each "*" takes as much as it can.
func cutPattern(text, pattern string) (rest string, ok bool) {
	for i, part := range strings.Split(pattern, "*") {
		if i > 0 {
			n := len(text) - len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/._-~+"))
			if n == 0 {
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

// quoted is where a word in single quotes ends that text begins with. A quote within it is written with the word's own quotes
// closed: '"'"' or '\” .
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
