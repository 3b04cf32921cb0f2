// Package intent determines the action that an agent intends, in one form for every agent: the Action that policies
// decide and that records contain.
//
// It does not trust the agent's messages. If a message is ambiguous, the action is marked as unparsed. The contents
// of a tool call take precedence over the kind that the agent names. Each agent's way to describe its tools is data,
// its dialect.
//
// The package makes no decisions.
package intent

import (
	"cmp"
	"slices"
	"strings"

	realpaths "github.com/acphost/acphost/internal/paths"
	"github.com/acphost/acphost/internal/secretfile"
	"github.com/acphost/acphost/internal/wordset"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/policy/dialect"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

// Bounds on the contents of an Action. Longer contents are cut, and the Action is marked as unparsed.
const (
	maxPaths    = 1000
	maxRoots    = 64       // roots that are resolved, if the session does not have their real paths
	maxRawInput = 1 << 20  // bytes of raw input, and of a command
	maxTitle    = 16 << 10 // bytes; a title identifies nothing, so it may be cut
)

// Session describes the session of an action, and its agent. The zero value is valid: everything is unknown.
type Session struct {
	// Agent is the agent's configured name, Dialect the name that it sends at initialize. They only select how its
	// messages are read.
	Agent, Dialect string
	// Version is the agent's version, which it sends at initialize.
	Version string
	// Configured is the user's configuration of the agent's dialect, which overrides the known dialect; may be nil.
	Configured *dialect.Dialect
	// StaysPut: the agent was instructed to run every command in the session's directory, even after an earlier
	// command changed it.
	StaysPut bool
	// Local: commands see the same files as this process, with the same rights, so their words are resolved on the
	// disk.
	Local bool
	// SessionID and Mode are ACP's session ID and session mode.
	SessionID, Mode string
	// Roots are the session's roots, the working directory first. May be empty.
	Roots []string
	// ResolvedRoots are the real paths of Roots, in their order; "" for an unknown one. nil: none is known.
	ResolvedRoots []string
	// Walls are the sandbox walls around the agent's processes and its terminals' commands; nil: unknown.
	Walls []permissionv1.Wall
	// Seen caches the paths resolved for the current question; nil: no cache.
	Seen *realpaths.Cache
	// Place resolves a path; nil: paths are not resolved. It is called once for each path that the action names, at
	// most 1000 times; for the paths that the words of a command may spell, at most 2048 of 256 words, or four times
	// as many if Local; and for the files that a command uses, at most 2048. A path with ".." in it is passed as
	// written, because behind a symbolic link only the file system can resolve it.
	Place func(path string) Place
}

// Place is a resolved path.
type Place struct {
	// Resolved is absolute and without symbolic links; empty if it is unknown.
	Resolved string
	// Unreachable is the handler that would know Resolved and does not respond; empty: none.
	Unreachable string
	// Inside: both spellings are inside the session's roots.
	Inside bool
	// Protected: it is one of acphost's own files or folders.
	Protected bool
	// GitInternal: it is a file of git's metadata, or becomes one when it is written.
	GitInternal bool
	// NoFolder: there is certainly no folder at this path.
	NoFolder bool
	// Content decides by the file's name and content whether the file is a secret. reads: the action uses the
	// content. nil: unknown.
	Content func(reads bool) secretfile.Verdict
}

// Question returns the action of a permission request, or of a report, about a tool call.
func Question(s Session, tc acp.ToolCall) *permissionv1.Action {
	a := s.action(permissionv1.Door_DOOR_REQUEST)
	a.ToolCallId = text(tc.ID)
	a.Title = cut(tc.Title, maxTitle)
	unparsed(a, text(tc.Ambiguous))
	if len(tc.RawInput) > maxRawInput {
		unparsed(a, "the raw input is over 1 MiB")
	} else {
		rawInput(a, tc.RawInput)
	}
	claim := s.claim(tc)
	a.Tool = cut(claim.tool, maxTitle)
	tc.Kind = cmp.Or(claim.kind, tc.Kind)
	paths := newPaths(s, a)

	shown := paths.diffs(tc.Content)
	diffs := shown.edit(tc.Kind)
	access := accessOf(tc.Kind, diffs)
	if claim.named() { // the other paths may be anything that the command uses
		access = permissionv1.Access_ACCESS_WRITE
	} else {
		claim.inFolders() // without a command, a folder is the object of the tool
	}
	for _, p := range claim.paths {
		if isPattern(p) {
			unparsed(a, "a path is a pattern: which files it stands for is not certain")
		}
		paths.add(p, access)
	}
	paths.locations(tc.Locations, access)
	paths.strays(claim.strays)
	named := a.GetPaths()
	s.command(a, claim, paths)
	if a.Command != nil && slices.ContainsFunc(named, func(p *permissionv1.PathAccess) bool { return strange(p, a.Command) }) {
		unparsed(a, besideCommand)
	}
	for _, why := range claim.unclear {
		unparsed(a, why)
	}
	a.Kind = kindOf(tc.Kind, a.Command != nil, diffs)
	missing(a, &claim, tc, shown)
	searches := a.GetKind() == "tool.search" || a.GetKind() == "tool.read" && len(claim.texts) > 0
	for _, p := range a.GetPaths() { // a text search reads all files below
		p.Recursive = searches && !claim.names
	}
	return a
}

// action returns an Action with the session's fields.
func (s Session) action(door permissionv1.Door) *permissionv1.Action {
	return &permissionv1.Action{
		Agent:         text(s.Agent),
		Mode:          text(s.Mode),
		SessionId:     text(s.SessionID),
		Roots:         s.Roots,
		ResolvedRoots: s.ResolvedRoots,
		Door:          door,
		Walls:         s.Walls,
	}
}

// kindOf prefers content to the agent's kind: a command means execute, a diff means edit.
func kindOf(kind string, command, diff bool) string {
	switch {
	case command:
		return "tool.execute"
	case diff:
		return "tool.edit"
	}
	if kinds[kind] {
		return "tool." + kind
	}
	return "unknown"
}

// kinds are ACP's kinds of tools.
var kinds = wordset.Of("read edit delete move search execute think fetch switch_mode other")

// missing adds a doubt for each thing that an action of its kind should name and does not, and for each
// contradiction.
func missing(a *permissionv1.Action, w *claim, tc acp.ToolCall, shown diffKinds) {
	diffs := shown.edit(tc.Kind)
	switch {
	case a.GetCommand() != nil && diffs:
		unparsed(a, "the agent shows a command and a diff: which of them it asks about is not certain")
	case diffs && (shown.deletes || shown.moves):
		if shown.deletes {
			unparsed(a, deletes)
		}
		if shown.moves {
			unparsed(a, moves)
		}
	case diffs && (tc.Kind == "delete" || tc.Kind == "move"):
		unparsed(a, "the agent calls it "+tc.Kind+" and shows an edit")
	}
	names := len(a.GetPaths()) > 0
	if w.writes && (a.GetKind() == "tool.read" || a.GetKind() == "tool.search") {
		unparsed(a, "the agent calls it "+tc.Kind+" and names a text to write")
	}
	switch a.GetKind() {
	case "tool.execute":
		if a.GetCommand() == nil {
			unparsed(a, "the agent asks to run a command and does not say which: a title identifies nothing")
		}
	case "tool.edit", "tool.delete", "tool.move", "tool.read":
		if !names {
			unparsed(a, "the agent does not say which file")
		} else if w.patterned && a.GetKind() != "tool.search" {
			unparsed(a, "a pattern stands for more files than are named")
		}
	case "tool.think", "tool.switch_mode":
		if names {
			unparsed(a, "the agent calls it "+tc.Kind+" and names a file")
		} else if empty(tc.RawInput) {
			unparsed(a, onlyTitle)
		}
	case "unknown":
		unparsed(a, "the agent does not say what kind of action it is")
	default:
		switch {
		case names, w.addressed, w.known, a.GetUnparsed() != "":
		case empty(tc.RawInput):
			unparsed(a, onlyTitle)
		case a.GetKind() == "tool.other":
			unparsed(a, "nothing but a text says what this is")
		}
	}
}

// besideCommand: the file may be the folder in which the agent runs the command, or an argument of the command.
const besideCommand = "the agent names a file outside of the session's folders that the command does not name"

// strange reports whether a path named beside a command is outside of the roots and not named by the command.
func strange(p *permissionv1.PathAccess, c *permissionv1.Command) bool {
	at := p.GetPath()
	names := func(word string) bool { return word == at || at != "/" && realpaths.Below(at, word) }
	return !p.GetInsideRoots() && !slices.ContainsFunc(c.GetSubCommands(), func(sub *permissionv1.SubCommand) bool {
		argv := sub.GetArgv()
		into := func(r *permissionv1.Redirection) bool { return names(r.GetPath()) }
		return slices.ContainsFunc(argv[min(1, len(argv)):], names) || slices.ContainsFunc(sub.GetRedirections(), into) || slices.ContainsFunc(sub.GetFacts().GetFiles(), func(f *permissionv1.FileUse) bool {
			return strings.HasPrefix(f.GetPath(), "/") && !f.GetInsideRoots() && (names(f.GetPath()) || realpaths.Below(f.GetPath(), at))
		})
	})
}

const onlyTitle = "nothing but a title says what this is, and a title identifies nothing"

func accessOf(kind string, diff bool) permissionv1.Access {
	if !diff && (kind == "read" || kind == "search") {
		return permissionv1.Access_ACCESS_READ
	}
	return permissionv1.Access_ACCESS_WRITE
}

// rawInput copies the agent's raw input into the action, for policies.
func rawInput(a *permissionv1.Action, raw []byte) {
	a.RawInput = text(string(raw))
	if len(a.RawInput) != len(raw) || a.RawInput != string(raw) {
		unparsed(a, "what the agent sent is not UTF-8")
	}
}

// empty reports whether a raw JSON value is empty.
func empty(raw []byte) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`}, string(raw))
}

// unparsed adds a reason why the action is not fully understood, without duplicates.
func unparsed(a *permissionv1.Action, why string) {
	switch have := a.GetUnparsed(); {
	case why == "" || strings.Contains(have, why):
	case have == "":
		a.Unparsed = why
	default:
		a.Unparsed += "; " + why
	}
}

// text returns s as valid UTF-8.
func text(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// cut returns at most the first n bytes of s as valid UTF-8, in whole characters.
func cut(s string, n int) string {
	s, _ = safetext.Prefix(text(s), n)
	return s
}
