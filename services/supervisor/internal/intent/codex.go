package intent

import (
	"regexp"
	"slices"

	"github.com/acphost/acphost/internal/shell"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// codex is Codex behind npm's @agentclientprotocol/codex-acp, a program in TypeScript that runs "codex app-server". Recorded
// with 2.6.0 and a model of a script (testdata/codex.ndjson); why it is so was read in its dist/index.js:
//   - It does everything itself: no fs/*, no terminal/*. What it asks depends on the mode. "agent", where it starts unless
//     INITIAL_AGENT_MODE says another, has a model of its own answer the questions, so that nobody else is asked;
//     "workspace-write" asks for what its sandbox does not let through; "read-only" asks for all but reading; and
//     "agent-full-access" for nothing. Text for a program that runs already (write_stdin) is never asked about. The adapter
//     has Codex trust every workspace: the MCP servers of its .codex/config.toml are run when a session is opened.
//   - A command: kind execute, rawInput.command is a line and cwd where it runs; what Codex thinks that it reads are
//     locations. The adapter has taken "bash -lc" and the quotes off (stripShellPrefix), but leaves the quotes of a line
//     that one pair is not enough for.
//   - The same question may ask for more than the command: rawInput.url or a text in the content for the network,
//     additionalPermissions for more of the sandbox. So does request_permissions: kind other, rawInput.permissions.
//   - A patch: kind edit, no rawInput. The files are locations, and the diffs are those of the report before it. One that is
//     moved is a location by its old name and a diff by its new one; what goes with a diff that the adapter leaves out,
//     since it has over 1 MiB or cannot be read, is not said at all. A deletion is a diff with "delete" in its _meta.
//   - A call of an MCP tool: kind execute, rawInput {server, tool, arguments}; what an MCP server asks: rawInput.serverName.
//   - A plan that is to be carried out: kind switch_mode.
//
// The former adapter, npm's @zed-industries/codex-acp (read in src/thread.rs and codex-rs/protocol/src/approvals.rs, as of
// 0.16.0), sends Codex's own events as rawInput: command is an argv, mostly ["bash", "-lc", LINE]; a patch has changes, an
// object whose names are the files, with move_path in an update, and grant_root asks for all of a folder; what else it asks
// for is in network_approval_context, additional_permissions and skill_metadata.
func codex() dialect {
	return dialect{agents: []string{"codex"}, first: codexInput, beside: func(w *claim, tc acp.ToolCall) {
		w.requote()
		if w.named() && showsText(tc.Content) {
			w.doubt("the agent asks for more than the command: what, the question says in words alone")
		}
		if !w.named() && len(w.paths) == 0 {
			w.patch(tc)
		}
	}}
}

func codexInput(w *claim, _ []byte, name string, value []byte) bool {
	switch name {
	case "changes":
		err := acp.Members(value, func(file string, change []byte) bool {
			w.paths = append(w.paths, text(file))
			w.moved(change)
			return true
		})
		w.expect(err == nil, "changes")
	case "network_approval_context", "additional_permissions", "skill_metadata", "grant_root", "url", "additionalpermissions", "permissions":
		w.doubt("the agent asks for more than the action itself: " + name)
	case "servername":
		w.doubt("an MCP server asks a question of its own")
	default:
		return false
	}
	return true
}

// requote takes off quotes that should not be there any more: of a line for which one pair is not enough, such as one with
// both a "'" and a "$", a single word in several pairs is left. Rules are to see the line itself. That it is one is a
// guess, so it is never certain.
func (w *claim) requote() {
	if w.line == "" || onePair.MatchString(w.line) {
		return
	}
	word, ok := oneWord(w.line)
	if !ok || word == w.line {
		return
	}
	if same, ok := oneWord(word); ok && same == word {
		return // quoted or not, it is the name of a program
	}
	w.line = word
	w.doubt("the command is quoted once more than it should be")
}

// onePair matches what a single pair of quotes holds, which the adapter takes off: if some are still there, they are the
// line's own.
var onePair = regexp.MustCompile(`(?s)^(?:'[^']*'|"(?:[^"\\]|\\.)*")$`)

// oneWord is the word that a line consists of.
func oneWord(line string) (word string, ok bool) {
	parts, why := shell.Parse(line)
	if why != "" || len(parts) != 1 || len(parts[0].GetArgv()) != 1 || parts[0].GetDynamic() ||
		len(parts[0].GetRedirections())+len(parts[0].GetAssignments())+len(parts[0].GetWrappers()) > 0 {
		return "", false
	}
	return parts[0].GetArgv()[0], true
}

// patch tells what a patch does beside changing files, and whether all of it is shown.
func (w *claim) patch(tc acp.ToolCall) {
	var shown, named []string
	_ = acp.Elements(tc.Content, func(v []byte) bool { // what cannot be read is said where the paths are taken
		if kind, _ := acp.Exact(acp.Get(v, "type")); kind != "diff" {
			return true
		}
		if file, ok := acp.Exact(acp.Get(v, "path")); ok && !slices.Contains(shown, file) {
			shown = append(shown, file)
		}
		if what, _ := acp.Exact(acp.Get(v, "_meta", "kind")); what == "delete" {
			w.doubt("the patch deletes a file")
		}
		return true
	})
	_ = acp.Elements(tc.Locations, func(v []byte) bool {
		if file, ok := acp.Exact(acp.Get(v, "path")); ok && !slices.Contains(named, file) {
			named = append(named, file)
		}
		return true
	})
	switch {
	case tc.Kind != "edit" && len(shown) == 0:
	case len(shown) < len(named):
		w.doubt("the patch is not shown in full, and what is not shown may move a file anywhere")
	case slices.ContainsFunc(named, func(file string) bool { return !slices.Contains(shown, file) }):
		w.doubt("the patch moves a file")
	}
}

// showsText reports whether a tool call's content has words in it.
func showsText(content []byte) bool {
	found := false
	_ = acp.Elements(content, func(v []byte) bool {
		kind, _ := acp.Exact(acp.Get(v, "type"))
		found = found || kind == "content"
		return true
	})
	return found
}

// moved adds where a change moves its file: {"type": "update", "move_path": PATH}, or one deeper, {"update": {…}}.
func (w *claim) moved(change []byte) {
	for _, to := range [][]byte{acp.Get(change, "move_path"), acp.Get(change, "update", "move_path")} {
		if len(to) > 0 && string(to) != "null" {
			w.expect(w.files(to), "move_path")
		}
	}
}
