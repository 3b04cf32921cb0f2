package intent

import (
	"fmt"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// said is what an agent said of an action, in its own words.
type said struct {
	line    string   // a command line, for a shell
	argv    []string // or a program and its arguments
	cwd     string
	env     []string
	paths   []string
	unclear string // why what it said cannot be taken for certain
}

// dialect is how one agent says what its tools are about to do. The zero dialect reads rawInput by the names that
// agents have in common.
type dialect struct {
	// agents are what such an agent calls itself, in lower case, or begins with.
	agents []string
	// read reads a tool call; nil for the common reading.
	readInput func(tc acp.ToolCall) said
}

func (d dialect) read(tc acp.ToolCall) said {
	if d.readInput != nil {
		return d.readInput(tc)
	}
	return common(tc)
}

// dialects returns the known ones.
func dialects() []dialect { return []dialect{claude(), codex(), gemini(), opencode()} }

func dialectOf(name string) dialect {
	name = strings.ToLower(name)
	for _, d := range dialects() {
		for _, a := range d.agents {
			if strings.HasPrefix(name, a) {
				return d
			}
		}
	}
	return dialect{}
}

// common reads rawInput by the names that agents use: command (a line, or an argv array), cmd, cwd, and the many
// spellings of a path. Two members that name a command differently make it unclear.
func common(tc acp.ToolCall) said {
	var w said
	if len(tc.RawInput) == 0 || tc.RawInput[0] != '{' {
		return w
	}
	var args []string
	err := acp.Members(tc.RawInput, func(name string, v []byte) bool {
		switch name {
		case "command", "cmd":
			w.command(name, v)
		case "commands":
			w.commands(v)
		case "args", "arguments":
			args, _ = acp.Strings(v)
		case "cwd", "workdir", "directory", "dir_path":
			w.cwd, _ = acp.String(v)
		case "path", "file_path", "filePath", "filepath", "abs_path", "absolute_path", "notebook_path", "file", "source", "destination":
			w.path(v)
		case "paths", "files":
			if list, ok := acp.Strings(v); ok {
				w.paths = append(w.paths, list...)
			}
		}
		return true
	})
	switch {
	case len(args) > 0 && w.line != "":
		w.argv, w.line = append([]string{w.line}, args...), ""
	case len(args) > 0 && len(w.argv) > 0:
		w.argv = append(w.argv, args...)
	}
	if err != nil {
		w.unclear = fmt.Sprintf("the raw input cannot be read in one way only: %v", err)
	}
	return w
}

// command takes a command that is a line or an argv array.
func (w *said) command(name string, raw []byte) {
	if w.line != "" || len(w.argv) > 0 {
		w.unclear = "the raw input names more than one command"
		return
	}
	if line, ok := acp.String(raw); ok {
		w.line = line
		return
	}
	if argv, ok := acp.Strings(raw); ok && len(argv) > 0 {
		w.argv = argv
		return
	}
	if string(raw) != "null" && string(raw) != "[]" {
		w.unclear = fmt.Sprintf("the raw input's %q is neither a command line nor an argument list", name)
	}
}

// commands takes a list of command lines, as if they stood one below the other.
func (w *said) commands(raw []byte) {
	lines, ok := acp.Strings(raw)
	if !ok {
		w.unclear = "the raw input's \"commands\" are not command lines"
		return
	}
	if len(lines) > 0 {
		w.command("commands", acp.Quote(strings.Join(lines, "\n")))
	}
}

func (w *said) path(raw []byte) {
	if p, ok := acp.String(raw); ok && p != "" {
		w.paths = append(w.paths, p)
	}
}
