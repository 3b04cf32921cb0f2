package intent

import (
	"path"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// claim is what an agent said of an action, in its own words.
type claim struct {
	source string   // what says so, for people
	kind   string   // ACP's, where the agent calls the tool something else than what it does
	line   string   // a command line, for a shell
	argv   []string // or a program and its arguments
	cwd    []string // where it runs; more than one is unclear
	env    []string // each NAME=VALUE
	paths  []string
	// elsewhere: it may run in another directory than the session's.
	elsewhere bool
	unclear   []string // why what it said cannot be taken for certain
}

// named reports whether a command was named.
func (w *claim) named() bool { return w.line != "" || len(w.argv) > 0 }

func (w *claim) doubt(why string) { w.unclear = append(w.unclear, why) }

// expect doubts what the source holds under a name, unless it could be read.
func (w *claim) expect(read bool, name string) {
	if !read {
		w.doubt("what " + w.source + " holds as " + name + " cannot be read")
	}
}

// dialect is how one agent says what its tools are about to do. The zero dialect reads rawInput by the names that
// agents have in common.
type dialect struct {
	// agents are what such an agent calls itself, in lower case and without a scope, or begins with.
	agents []string
	// first reads a member of raw before the common reading does, by its name in lower case; false: it is for that one. nil:
	// there is nothing special.
	first func(w *claim, raw []byte, name string, value []byte) bool
	// beside adds, after all that, what the rest of the tool call says of it. nil: that says nothing more.
	beside func(w *claim, tc acp.ToolCall)
	// elsewhere: a command may run in another directory than the session's without the question saying so.
	elsewhere bool
}

func (d dialect) read(tc acp.ToolCall) claim {
	w := read(tc.RawInput, d.first)
	if d.beside != nil {
		d.beside(&w, tc)
	}
	w.elsewhere = d.elsewhere && w.named() && len(w.cwd) == 0
	return w
}

// dialects returns the known ones.
func dialects() []dialect { return []dialect{claude(), codex(), gemini(), opencode(), qwen()} }

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
