package policytool

import (
	"cmp"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/acphost/acphost/internal/yamlproto"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/gate"
)

// Profile is what rule files let an agent's commands and processes do. It lists the rules for each operation. It does
// not decide: several rules may match one action, and then the strictest counts.
type Profile struct {
	files []profiledFile
}

// profiledFile is a rule file that was read.
type profiledFile struct {
	layer permissionv1.Layer
	*permissionv1.Policy
	// processes: the file has rules for processes.
	processes bool
}

// NewProfile reads rule files that permd has accepted. The error is about a file that cannot be read.
func NewProfile(files []*permissionv1.PolicyFile) (*Profile, error) {
	p := &Profile{}
	for _, file := range files {
		read := profiledFile{layer: file.GetLayer(), Policy: &permissionv1.Policy{}}
		if err := yamlproto.Unmarshal(file.GetName(), file.GetContent(), read.Policy); err != nil {
			return nil, err
		}
		read.processes = slices.ContainsFunc(read.GetRules(), func(r *permissionv1.Rule) bool {
			return slices.ContainsFunc(r.GetOn(), func(kind string) bool { return strings.HasPrefix(kind, "process.") })
		})
		p.files = append(p.files, read)
	}
	return p, nil
}

// operation is something that an agent or its processes do.
type operation struct {
	title string
	kind  string // of rules for processes
	call  string // the kind for files that have no rules for processes
	wall  string // the wall that decides it; empty: it is decided by the line of a command
	every string // all objects of the operation
	free  string // what applies without the wall
}

var operations = []operation{
	{"Run commands, by their lines", "terminal.create", "terminal.create", "", "every command", ""},
	{"Start programs", kindStart, "terminal.create", "files", "every program", "every program"},
	{"Read files", kindRead, "fs.read", "reads", "every file", "every file that the agent's user may read"},
	{"Write files", kindWrite, "fs.write", "files", "every file", "every file that the agent's user may write"},
	{"Write git's bookkeeping", kindGit, "fs.write", "files", "every repository", "every repository that the agent's user may write"},
	{"Connect to machines", kindConnect, kindConnect, "network", "every machine", "every machine, directly"},
	{"Connect to unix sockets", kindConnect, kindConnect, "files", everySocket, "every socket that the agent's user may use"},
}

const everySocket = "every socket"

func (o *operation) ofSockets() bool { return o.every == everySocket }
func (o *operation) ofCommands() bool {
	return o.kind == kindStart || o.kind == "terminal.create"
}

// Print writes what the rules mean with the active walls; no walls: commands are decided by their lines, and processes
// are not decided.
func (p *Profile) Print(w io.Writer, s Style, active []permissionv1.Wall) {
	title := "Without walls"
	if len(active) > 0 {
		title = "With the walls " + wordsOfWalls(active)
	}
	fmt.Fprintf(w, "%s\n", s.paint(bold, title))
	for _, o := range operations {
		if o.wall == "" || len(active) > 0 {
			s.section(w, o.title, p.rows(&o, active))
		}
	}
	if len(active) == 0 {
		const free = "everything that the agent's user may: no sandbox decides"
		s.section(w, "Processes", [][]cell{{{verbs["allow"], green}, {text: free}}})
	}
	fmt.Fprintln(w)
	s.table(w, "", [][]cell{{{ownRules, dim}}})
}

// ownRules describes the rules that apply before those of rule files.
const ownRules = "acphost itself denies access to its own files and to files with keys (" + gate.RuleProtected +
	"), whatever a rule says."

// rows returns the rules for an operation, the strictest first, and what applies to the rest.
func (p *Profile) rows(o *operation, active []permissionv1.Wall) [][]cell {
	if o.wall != "" && !slices.Contains(active, walls[o.wall]) {
		return [][]cell{{{verbs["allow"], green}, {text: o.free + ": the wall " + o.wall + " is not active"}}}
	}
	rows := append(p.rules(o, active, "deny"), p.rules(o, active, "ask")...)
	if o.kind == kindWrite {
		rows = append(rows, p.gitRuns())
	}
	allowed := p.rules(o, active, "allow")
	every := func(row []cell) bool { return strings.HasPrefix(row[1].text, o.every+" (") }
	if i := slices.IndexFunc(allowed, every); i >= 0 {
		return append(rows, allowed[i]) // other allow rules allow nothing more
	}
	return append(append(rows, allowed...), p.rest(o))
}

// rules returns a row for each rule with an effect that is about an operation.
func (p *Profile) rules(o *operation, active []permissionv1.Wall, effect string) [][]cell {
	var rows [][]cell
	for i := range p.files {
		f := &p.files[i]
		if effect == "allow" && f.layer == permissionv1.Layer_LAYER_WORKSPACE {
			continue // an untrusted workspace allows nothing
		}
		for _, r := range f.GetRules() {
			if r.GetEffect() == effect && f.isFor(r, o, active) {
				rows = append(rows, []cell{{verbs[effect], colorOf(effect)}, {text: subjectOf(r, o) + p.origin(r, f)}})
			}
		}
	}
	return rows
}

// decidesProcesses reports whether one of the files has rules for processes.
func (p *Profile) decidesProcesses() bool {
	return slices.ContainsFunc(p.files, func(f profiledFile) bool { return f.processes })
}

// gitRuns returns what applies to files that git runs, which no allow rule covers.
func (p *Profile) gitRuns() []cell {
	if p.decidesProcesses() {
		return []cell{{verbs["ask"], yellow}, {text: "what git runs, where no rule denies it: no allow rule covers it"}}
	}
	return []cell{{verbs["deny"], red}, {text: "what git runs (" + gate.RuleGit + "): there are no rules for processes"}}
}

var verbs = map[string]string{"deny": "may not", "ask": "is asked about", "allow": "may"}

// rest returns what applies to everything that no rule is about.
func (p *Profile) rest(o *operation) []cell {
	switch {
	case o.ofSockets():
		return []cell{{verbs["allow"], green}, {text: "every other socket: no rule names it"}}
	case o.kind == kindRead && !p.decidesProcesses():
		const why = "every other file: without rules for processes, only deny rules apply to reads"
		return []cell{{verbs["allow"], green}, {text: why}}
	}
	return []cell{{verbs["ask"], yellow}, {text: "everything else; " + p.unattended() + " if no user is there to answer"}}
}

// unattended returns what happens to questions without a person: allowed only if every rule file allows them.
func (p *Profile) unattended() string {
	for _, f := range p.files {
		if f.layer == permissionv1.Layer_LAYER_WORKSPACE && f.GetUnattended() != "deny" {
			continue
		}
		if f.GetUnattended() != "allow" {
			return "denied"
		}
	}
	return "allowed"
}

// isFor reports whether a rule may match an action of the operation.
func (f *profiledFile) isFor(r *permissionv1.Rule, o *operation, active []permissionv1.Wall) bool {
	kind := o.kind
	if !f.processes {
		kind = o.call
	}
	missing := func(name string) bool { return !slices.Contains(active, walls[name]) }
	switch {
	case !matchesKind(r.GetOn(), kind), len(r.GetTool()) > 0:
		return false
	case slices.ContainsFunc(r.GetContained(), missing):
		return false
	case len(r.GetNotContained()) > 0 && !slices.ContainsFunc(r.GetNotContained(), missing):
		return false
	case o.ofCommands():
		return len(r.GetHost()) == 0 && (r.GetEffect() != "allow" || len(r.GetPath()) == 0 || aboutCommands(r))
	case aboutCommands(r):
		return false
	case o.ofSockets():
		named := r.GetEffect() == "deny" || r.GetEffect() == "ask" && len(r.GetPath()) > 0
		return named && len(r.GetHost()) == 0 && r.GetAccess() != "read"
	case o.kind == kindConnect:
		return len(r.GetPath()) == 0
	case len(r.GetHost()) > 0:
		return false
	}
	return r.GetAccess() == "" || (r.GetAccess() == "read") == (o.kind == kindRead)
}

// aboutCommands reports whether a rule has conditions on commands.
func aboutCommands(r *permissionv1.Rule) bool {
	return len(r.GetCommand())+len(r.GetReads())+len(r.GetWrites()) > 0 || r.RunsCode != nil || r.Network != nil ||
		strings.Contains(r.GetWhen(), "action.command")
}

// matchesKind reports whether the kinds of a rule include a kind. "*" stands for any characters except a dot.
func matchesKind(on []string, kind string) bool {
	slashed := func(text string) string { return strings.ReplaceAll(text, ".", "/") }
	named, matches := false, false
	for _, pattern := range on {
		rest, except := strings.CutPrefix(pattern, "!")
		is, _ := path.Match(slashed(rest), slashed(kind))
		if except && is {
			return false
		}
		named, matches = named || !except, matches || !except && is
	}
	return matches || !named
}

// subjectOf describes what a rule matches.
func subjectOf(r *permissionv1.Rule, o *operation) string {
	var parts []string
	add := func(format string, patterns []string) {
		if len(patterns) > 0 {
			parts = append(parts, fmt.Sprintf(format, firstFew(patterns)))
		}
	}
	files, except := splitPaths(r.GetPath())
	add("%s", quotedAll(r.GetCommand()))
	add(map[bool]string{true: "commands that use %s", false: "%s"}[o.ofCommands()], files)
	add("except %s", except)
	add("%s", r.GetHost())
	add("commands that read %s", r.GetReads())
	add("commands that write %s", r.GetWrites())
	if r.GetWhen() != "" {
		parts = append(parts, "under the rule's condition")
	}
	if r.RunsCode != nil || r.Network != nil {
		parts = append(parts, "by what the command does")
	}
	if r.GetUnlessPublic() {
		parts = append(parts, "except files that are known to hold no secret")
	}
	add("for the agent %s", r.GetAgent())
	add("in the mode %s", r.GetMode())
	if text := strings.Join(parts, ", "); text != "" && !slices.Equal(r.GetPath(), []string{"/**"}) {
		return text
	}
	return o.every
}

// splitPaths separates the globs of a rule from the excepted ones.
func splitPaths(globs []string) (files, except []string) {
	for _, glob := range globs {
		if rest, ok := strings.CutPrefix(glob, "!"); ok {
			except = append(except, rest)
		} else {
			files = append(files, glob)
		}
	}
	return files, except
}

func quotedAll(commands []string) []string {
	all := make([]string, len(commands))
	for i, command := range commands {
		all[i] = "`" + command + "`"
	}
	return all
}

// firstFew joins the first patterns, and counts the others.
func firstFew(patterns []string) string {
	const most = 3
	if len(patterns) <= most {
		return strings.Join(patterns, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(patterns[:most], ", "), len(patterns)-most)
}

// origin returns the rule of a row and its reason.
func (p *Profile) origin(r *permissionv1.Rule, f *profiledFile) string {
	name := r.GetId()
	if len(p.files) > 1 {
		name += ", " + shortLayer(f.layer)
	}
	if r.GetNotGrantable() {
		name += ", each time"
	}
	return fmt.Sprintf(" (%s)%s", name, strings.TrimSuffix(": "+cmp.Or(r.GetReason(), ""), ": "))
}
