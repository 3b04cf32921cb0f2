package intent

import (
	"path"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// said is what an agent said of an action, in its own words.
type said struct {
	line    string   // a command line, for a shell
	argv    []string // or a program and its arguments
	cwd     []string // where it runs; more than one is unclear
	env     []string // each NAME=VALUE
	paths   []string
	unclear []string // why what it said cannot be taken for certain
}

// named tells whether a command was named.
func (w *said) named() bool { return w.line != "" || len(w.argv) > 0 }

func (w *said) doubt(why string) { w.unclear = append(w.unclear, why) }

// dialect is how one agent says what its tools are about to do. The zero dialect reads rawInput by the names that
// agents have in common.
type dialect struct {
	// agents are what such an agent calls itself, in lower case and without a scope, or begins with.
	agents []string
	// more reads a member of rawInput that the common reading does not know; nil: there is none.
	more func(w *said, name string, value []byte)
}

func (d dialect) read(tc acp.ToolCall) said { return read(tc.RawInput, d.more) }

// dialects returns the known ones.
func dialects() []dialect { return []dialect{claude(), codex(), gemini(), opencode()} }

// dialectOf chooses by the name that an agent gives itself; npm packages carry a scope: "@scope/codex-acp".
func dialectOf(name string) dialect {
	name = path.Base(strings.ToLower(name))
	for _, d := range dialects() {
		for _, a := range d.agents {
			if strings.HasPrefix(name, a) {
				return d
			}
		}
	}
	return dialect{}
}
