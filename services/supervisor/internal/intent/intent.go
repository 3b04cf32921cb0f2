// Package intent says what an agent is about to do in one form, whatever the agent and whichever door it comes to: the
// Action that policies judge and that records keep.
//
// It reads what agents send and trusts none of it: what cannot be read for certain is said to be unparsed, and content
// counts for more than the kind that the agent claims. It decides nothing. How one agent says things is in that agent's
// dialect file.
package intent

import (
	"cmp"
	"strings"
	"unicode/utf8"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// Bounds on what goes into an Action; more is cut, and the Action says that it is unparsed.
const (
	maxPaths    = 1000
	maxRoots    = 64       // roots of which it is asked where they lead, where the scene does not say
	maxRawInput = 1 << 20  // bytes of raw input, and of a command
	maxTitle    = 16 << 10 // bytes; a title identifies nothing, so cutting it loses nothing
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
	// ResolvedRoots are where Roots really lead, in their order, "" for one that is not known. nil: none is known.
	ResolvedRoots []string
	// Place, if set, says where a path really leads. It is called once for each path that the action names, at most 1000
	// times, and for those that the words of a command may spell, at most 256 words. A path with ".." in it is as it was
	// written: behind a symbolic link only the file system knows where that leads.
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
	a := s.action(permissionv1.Door_DOOR_REQUEST)
	a.ToolCallId = text(tc.ID)
	a.Title = cut(text(tc.Title), maxTitle)
	a.Tool = cut(text(tc.Name), maxTitle)
	unparsed(a, text(tc.Ambiguous))
	if len(tc.RawInput) > maxRawInput {
		unparsed(a, "the raw input is over 1 MiB")
	} else {
		rawInput(a, tc.RawInput)
	}
	said := dialectOf(s.Dialect).read(tc)
	tc.Kind = cmp.Or(said.kind, tc.Kind)
	paths := newPaths(s, a)

	diffs := paths.diffs(tc.Content)
	access := accessOf(tc.Kind, diffs)
	if said.named() { // what else is named may be anything that the command touches
		access = permissionv1.Access_ACCESS_WRITE
	} else {
		said.paths = append(said.paths, said.cwd...) // a folder without a command is what the tool works on
	}
	for _, p := range said.paths {
		paths.add(p, access)
	}
	paths.locations(tc.Locations, access)
	s.command(a, said, paths)
	for _, why := range said.unclear {
		unparsed(a, why)
	}
	a.Kind = kindOf(tc.Kind, a.Command != nil, diffs)
	missing(a, tc, diffs)
	return a
}

// action is an Action with what the scene says.
func (s Scene) action(door permissionv1.Door) *permissionv1.Action {
	return &permissionv1.Action{
		Agent:         text(s.Agent),
		Mode:          text(s.Mode),
		SessionId:     text(s.SessionID),
		Roots:         s.Roots,
		ResolvedRoots: s.ResolvedRoots,
		Door:          door,
	}
}

// kindOf trusts content: a command means execute, a diff means edit, whatever the agent calls it.
func kindOf(kind string, command, diff bool) string {
	switch {
	case command:
		return "tool.execute"
	case diff:
		return "tool.edit"
	}
	switch kind {
	case "read", "edit", "delete", "move", "search", "execute", "think", "fetch", "switch_mode", "other":
		return "tool." + kind
	}
	return "unknown"
}

// missing notes what an action of its kind should name and does not, and what contradicts itself.
func missing(a *permissionv1.Action, tc acp.ToolCall, diffs bool) {
	switch {
	case a.GetCommand() != nil && diffs:
		unparsed(a, "the agent shows a command and a diff: which of them it asks about is not certain")
	case diffs && (tc.Kind == "delete" || tc.Kind == "move"):
		unparsed(a, "the agent calls it "+tc.Kind+" and shows an edit")
	}
	switch a.GetKind() {
	case "tool.execute":
		if a.GetCommand() == nil {
			unparsed(a, "the agent asks to run a command and does not say which: a title identifies nothing")
		}
	case "tool.edit", "tool.delete", "tool.move", "tool.read":
		if len(a.GetPaths()) == 0 {
			unparsed(a, "the agent does not say which file")
		}
	case "unknown":
		unparsed(a, "the agent does not say what kind of action it is")
	default:
		if len(a.GetPaths()) == 0 && empty(tc.RawInput) {
			unparsed(a, "nothing but a title says what this is, and a title identifies nothing")
		}
	}
}

func accessOf(kind string, diff bool) permissionv1.Access {
	if !diff && (kind == "read" || kind == "search") {
		return permissionv1.Access_ACCESS_READ
	}
	return permissionv1.Access_ACCESS_WRITE
}

// rawInput records what the agent sent, as a policy is to see it.
func rawInput(a *permissionv1.Action, raw []byte) {
	a.RawInput = text(string(raw))
	if len(a.RawInput) != len(raw) || a.RawInput != string(raw) {
		unparsed(a, "what the agent sent is not UTF-8")
	}
}

// empty tells whether a raw JSON value says nothing.
func empty(raw []byte) bool {
	switch string(raw) {
	case "", "null", "{}", "[]", `""`:
		return true
	}
	return false
}

// unparsed adds a reason why the action is not understood in full, each once.
func unparsed(a *permissionv1.Action, why string) {
	switch have := a.GetUnparsed(); {
	case why == "" || strings.Contains(have, why):
	case have == "":
		a.Unparsed = why
	default:
		a.Unparsed += "; " + why
	}
}

// text is s as a message can carry it.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cut shortens s to at most n bytes of whole characters.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}
