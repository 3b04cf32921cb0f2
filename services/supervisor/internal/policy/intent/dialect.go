package intent

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
)

// claim is an agent's description of an action.
type claim struct {
	source string   // where the description is from, for messages to people
	kind   string   // ACP's kind, if the agent calls the tool something other than what it does
	tool   string   // the tool's name, as the agent states it
	line   string   // a command line, for a shell
	argv   []string // or a program and its arguments
	alone  bool     // argv is read without the commands that the program may start
	cwd    []string // where it runs; more than one makes the claim unclear
	env    []string // each NAME=VALUE
	paths  []string
	// known: the tool is one of the agent's own. names: the tool reads only names of files.
	known, names bool
	// addressed: it has a network address. patterned: it has a file pattern.
	addressed, patterned bool
	// whole: the input holds the whole request. folders: the request is about the folders of the command.
	whole, folders bool
	// elsewhere: it may run outside of the session's directory.
	elsewhere bool
	// unexplained are the members with unknown meaning, strays the texts in them.
	unexplained, strays []string
	// texts are the texts to write, to search for or to ask. writes: some of them are written.
	texts   []string
	writes  bool
	unclear []string // reasons why the description is not certain
}

// named reports whether the claim has a command.
func (w *claim) named() bool { return w.line != "" || len(w.argv) > 0 }

// inFolders adds the folders to the paths. If there is only one, relative paths may be relative to it.
func (w *claim) inFolders() {
	if len(w.cwd) == 1 {
		for _, file := range w.paths[:min(len(w.paths), maxPaths)] {
			if !path.IsAbs(file) && !strings.Contains(file, ":") {
				w.paths = append(w.paths, under(w.cwd[0], file))
			}
		}
	} else if len(w.cwd) > 1 && len(w.paths) > 0 {
		w.doubt("the raw input names files, and more than one folder that they may be in")
	}
	w.paths = append(w.paths, w.cwd...)
}

func (w *claim) doubt(why string) {
	if len(w.unclear) < maxDoubts && !slices.Contains(w.unclear, why) {
		w.unclear = append(w.unclear, why)
	}
}

// expect adds a doubt if the value of a member could not be read.
func (w *claim) expect(read bool, name string) {
	if !read {
		w.doubt("what " + w.source + " holds as " + cut(name, maxWord) + " cannot be read")
	}
}

// dialect returns how the session's agent describes its tools: the known dialect of an agent with that name, with the
// user's configuration applied.
func (s Session) dialect() *dialect.Dialect {
	if d := s.Configured.Over(dialect.Of(s.Dialect)); d != nil {
		return d
	}
	return &dialect.Dialect{}
}

// read reads the input of a tool call.
func (s Session) read(tc acp.ToolCall) *reader {
	d := s.dialect()
	name := tc.Name
	if name == "" && d.ToolInTitle && !s.titleRuns(d, tc) {
		name, _, _ = strings.Cut(tc.Title, ": ")
	}
	tool, known := d.Tools[name]
	r := &reader{d: d, tool: tool, kind: tc.Kind, claim: &claim{source: "the raw input", tool: name, known: known, names: tool.Names}}
	r.input(tc.RawInput)
	return r
}

// claim reads a tool call.
func (s Session) claim(tc acp.ToolCall) claim {
	r := s.read(tc)
	w, d, tool := r.claim, r.d, r.tool
	switch {
	case !kinds[tc.Kind] || tc.Kind == "other":
		w.kind = tool.Kind
	case tool.Kind != "" && tool.Kind != tc.Kind:
		w.doubt("the agent calls it " + tc.Kind + ", and the tool " + w.tool + " is another kind")
	}
	switch {
	case tool.Doubt != "":
		w.doubt(tool.Doubt)
	case w.tool != "" && !w.known && len(d.Tools) > 0:
		w.doubt("the tool " + cut(w.tool, maxWord) + " is none of the agent's own: what its input means is not known")
	default:
		r.explained()
	}
	if s.titleRuns(d, tc) {
		w.source, w.line = "the title", tc.Title
		if altered(tc.Title) {
			w.doubt("the title cannot be read as it was sent")
		}
	}
	for _, reading := range d.Readings {
		readings[reading](w, tc)
	}
	if tool.Here && len(w.paths)+len(w.cwd) == 0 {
		w.paths = append(w.paths, ".")
	}
	if !w.named() && len(w.paths) == 0 { // the written text may be a patch that names its files
		for _, said := range w.texts {
			r.addPatch(readPatch(said))
		}
	}
	w.env = s.ownVariables(w.env)
	elsewhere := cmp.Or(tool.Elsewhere, d.Elsewhere)
	w.elsewhere = elsewhere != nil && *elsewhere && w.named() && len(w.cwd) == 0 && !s.textSaysHere(d, tc)
	return *w
}

// titleRuns reports whether the title of a tool call is its command.
func (s Session) titleRuns(d *dialect.Dialect, tc acp.ToolCall) bool {
	return (d.TitleIsCommand || s.titled(d)) && tc.Kind == "execute" && empty(tc.RawInput)
}

// titled reports whether titles are known to be commands in the agent's version.
func (s Session) titled(d *dialect.Dialect) bool {
	return d.Titled != nil && slices.Contains(d.Titled.Versions, s.Version)
}

// textSaysHere reports whether the text after a command's title states that the command runs in the session's folder.
// After the call has ended, the text is the command's output.
func (s Session) textSaysHere(d *dialect.Dialect, tc acp.ToolCall) bool {
	if !s.titled(d) || d.Titled.Here == "" || !s.titleRuns(d, tc) || acp.ToolCallEnded(tc.Status) {
		return false
	}
	items := acp.ContentItems(tc.Content)
	if len(items) != 1 || items[0].Type != "content" {
		return false
	}
	said, ok := acp.Exact(acp.Get(items[0].Raw, "content", "text"))
	return ok && strings.HasPrefix(said, d.Titled.Here)
}

// ownVariables returns env without the variables that the agent sets on every command and those without effect.
func (s Session) ownVariables(env []string) []string {
	set := slices.Concat(dialect.Common().Environment, s.dialect().Environment)
	return slices.DeleteFunc(env, func(entry string) bool {
		return slices.ContainsFunc(set, func(known string) bool { return dialect.Sets(known, entry) })
	})
}

// Awaits reports whether the call's command still lacks its directory, which a later report of the agent will
// contain.
func (s Session) Awaits(tc acp.ToolCall) bool {
	if !slices.Contains(s.dialect().Readings, dialect.Located) || len(tc.RawInput) > maxRawInput {
		return false
	}
	w := s.claim(tc)
	return w.named() && len(w.cwd) == 0
}
