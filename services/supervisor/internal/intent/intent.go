// Package intent says what an agent is about to do in one form, whatever the agent and whichever door it comes to: the
// Action that policies judge and that records keep.
//
// It reads what agents send and trusts none of it: what cannot be read for certain is said to be unparsed, and content
// counts for more than the kind that the agent claims. It decides nothing. How one agent says things is in that agent's
// dialect file.
package intent

import (
	"path/filepath"
	"strings"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/sdk/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Bounds on what goes into an Action; more is cut, and the Action says that it is unparsed.
const (
	maxPaths    = 1000
	maxRawInput = 1 << 20
)

// Scene is what an action is seen against.
type Scene struct {
	// Agent is the agent's configured name, Dialect what it says of itself at initialize: it chooses only how its own
	// words are read.
	Agent, Dialect string
	// SessionID and Mode are ACP's.
	SessionID, Mode string
	// Roots are the session's, the working directory first. May be empty.
	Roots []string
	// Place, if set, says where a path really leads. It is called once for each path.
	Place func(path string) Place
}

// Place is where a path leads.
type Place struct {
	// Resolved is absolute and without symbolic links; empty if that is not known.
	Resolved string
	// Inside: both spellings lie inside the session's roots.
	Inside bool
	// Protected: it is one of acphost's own files or folders.
	Protected bool
}

// Question normalises a permission question, or a report, about a tool call.
func Question(s Scene, tc acp.ToolCall) *permissionv1.Action {
	a := &permissionv1.Action{
		Agent:      s.Agent,
		Mode:       s.Mode,
		SessionId:  s.SessionID,
		ToolCallId: tc.ID,
		Title:      tc.Title,
		Door:       permissionv1.Door_DOOR_REQUEST,
		Roots:      s.Roots,
		Unparsed:   tc.Ambiguous,
	}
	d := dialectOf(s.Dialect)
	said := d.read(tc)
	if len(tc.RawInput) <= maxRawInput {
		a.RawInput = string(tc.RawInput)
	} else {
		unparsed(a, "the raw input is over 1 MiB")
	}
	if said.unclear != "" {
		unparsed(a, said.unclear)
	}

	diffs := false
	paths := newPaths(s)
	for _, it := range acp.ContentItems(tc.Content) {
		if it.Type == "diff" {
			diffs = true
			paths.add(it.Path, permissionv1.Access_ACCESS_WRITE)
		}
	}
	access := accessOf(tc.Kind, diffs)
	for _, p := range said.paths {
		paths.add(p, access)
	}
	for _, p := range acp.LocationPaths(tc.Locations) {
		paths.add(p, access)
	}
	a.Command = s.command(said)
	if a.Command != nil {
		paths.redirections(a.Command)
	}
	a.Paths = paths.list
	a.Kind = kindOf(tc.Kind, a.Command != nil, diffs)
	if paths.cut {
		unparsed(a, "more than 1000 paths")
	}
	if why := missing(a, tc); why != "" {
		unparsed(a, why)
	}
	return a
}

// kindOf trusts content: a command means execute, a diff means edit, whatever the agent calls it.
func kindOf(kind string, command, diff bool) string {
	switch {
	case command:
		return "tool.execute"
	case diff && kind != "delete" && kind != "move":
		return "tool.edit"
	}
	switch kind {
	case "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other":
		return "tool." + kind
	}
	return "unknown"
}

// missing says what an action of its kind should name and does not.
func missing(a *permissionv1.Action, tc acp.ToolCall) string {
	switch a.Kind {
	case "tool.execute":
		if a.Command == nil {
			return "the agent asks to run a command and does not say which: a title identifies nothing"
		}
	case "tool.edit", "tool.delete", "tool.move", "tool.read":
		if len(a.Paths) == 0 {
			return "the agent does not say which file"
		}
	case "unknown":
		return "the agent does not say what kind of action it is"
	}
	return ""
}

func accessOf(kind string, diff bool) permissionv1.Access {
	if diff {
		return permissionv1.Access_ACCESS_WRITE
	}
	switch kind {
	case "read", "search":
		return permissionv1.Access_ACCESS_READ
	}
	return permissionv1.Access_ACCESS_WRITE
}

// command builds the Command of what the agent said; nil if it named none.
func (s Scene) command(w said) *permissionv1.Command {
	if w.line == "" && len(w.argv) == 0 {
		return nil
	}
	c := &permissionv1.Command{Cwd: w.cwd, Env: w.env}
	if c.Cwd != "" {
		c.Cwd = s.absolute(c.Cwd)
	}
	if len(w.argv) > 0 {
		c.Argv = w.argv
		c.Text = shell.Quote(w.argv)
		c.SubCommands, c.Unparsed = shell.FromArgv(w.argv)
	} else {
		c.Text = w.line
		c.SubCommands, c.Unparsed = shell.Parse(w.line)
	}
	return c
}

func (s Scene) absolute(path string) string {
	if filepath.IsAbs(path) || len(s.Roots) == 0 {
		return path
	}
	return filepath.Join(s.Roots[0], path)
}

// paths collects the paths of an action, each once, writes before reads.
type paths struct {
	scene Scene
	list  []*permissionv1.PathAccess
	seen  map[string]*permissionv1.PathAccess
	cut   bool
}

func newPaths(s Scene) *paths { return &paths{scene: s, seen: map[string]*permissionv1.PathAccess{}} }

func (p *paths) add(path string, access permissionv1.Access) *permissionv1.PathAccess {
	if path == "" {
		return nil
	}
	path = p.scene.absolute(strings.TrimPrefix(path, "file://"))
	if known := p.seen[path]; known != nil {
		if access == permissionv1.Access_ACCESS_WRITE {
			known.Access = access
		}
		return known
	}
	if len(p.list) >= maxPaths {
		p.cut = true
		return nil
	}
	pa := &permissionv1.PathAccess{Path: path, Access: access}
	if p.scene.Place != nil {
		at := p.scene.Place(path)
		pa.ResolvedPath, pa.InsideRoots, pa.Protected = at.Resolved, at.Inside, at.Protected
	}
	p.seen[path] = pa
	p.list = append(p.list, pa)
	return pa
}

// redirections adds the files that a command line reads and writes through its shell.
func (p *paths) redirections(c *permissionv1.Command) {
	for _, sub := range c.GetSubCommands() {
		for _, r := range sub.GetRedirections() {
			if r.GetDynamic() || r.GetPath() == "" || r.GetPath() == "/dev/null" {
				continue
			}
			path := r.GetPath()
			if c.GetCwd() != "" && !filepath.IsAbs(path) {
				path = filepath.Join(c.GetCwd(), path)
			}
			access := permissionv1.Access_ACCESS_WRITE
			if r.GetOperator() == "<" {
				access = permissionv1.Access_ACCESS_READ
			}
			if pa := p.add(path, access); pa != nil {
				r.ResolvedPath = pa.GetResolvedPath()
			}
		}
	}
}

func unparsed(a *permissionv1.Action, why string) {
	if a.GetUnparsed() == "" {
		a.Unparsed = why
	} else {
		a.Unparsed += "; " + why
	}
}
