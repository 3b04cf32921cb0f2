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
	// Repeated may stand any number of times after Before, and Last stands after that; empty: neither does. A "*" is as
	// above.
	Repeated string `json:"repeated"`
	Last     string `json:"last"`
	After    string `json:"after"`
	// Raw: the line is not quoted. One that what stands after it could be part of is not taken off.
	Raw bool `json:"raw"`
}

// wrapShells are the shells that agents start.
var wrapShells = []string{"sh", "bash", "zsh", "dash"}

// Unwrap takes the wrapping off: head is the shell and its options, line what the shell runs. It reports false for a
// line that is not wrapped in just this way, and for one with a file that is not the agent's own, as kept says: the
// shell reads or writes these besides.
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

// cutPattern takes a pattern off the beginning of text. Each "*" takes as much as it can, for which is has to hold.
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
