package intent

import "github.com/acphost/acphost/services/supervisor/internal/acp"

// codex is Codex behind npm's @zed-industries/codex-acp. Its packages hold a binary alone. Read instead: src/thread.rs of
// the repository zed-industries/codex-acp, and the structs of codex-rs/protocol/src/approvals.rs that it serialises; the
// names below stand in the binary of 0.16.0 (@zed-industries/codex-acp-linux-x64) too.
//   - exec_approval: rawInput is the whole event: command is an argv array, mostly ["bash", "-lc", LINE], with cwd beside
//     it. The kind is read, search or execute, by what Codex itself made of the command (parse_command_tool_call), so a
//     command that reads is not of kind execute; what it thinks it reads are locations.
//   - The same event may ask for more than to run the command: network_approval_context for the network,
//     additional_permissions for more of the sandbox, skill_metadata for a skill. These are for a person.
//   - patch_approval: kind edit, rawInput.changes is an object whose names are the files, an update's move_path is where it
//     goes, and grant_root asks for all of a folder; diffs and locations stand beside it.
//   - Elicitations of MCP servers come as permission questions, and MCP calls as reports, both without a kind.
func codex() dialect {
	return dialect{agents: []string{"codex"}, first: func(w *said, _ []byte, name string, value []byte) bool {
		switch name {
		case "changes":
			if err := acp.Members(value, func(file string, change []byte) bool {
				w.paths = append(w.paths, text(file))
				w.moved(change)
				return true
			}); err != nil {
				w.doubt("what the raw input holds as changes cannot be read")
			}
		case "network_approval_context", "additional_permissions", "skill_metadata", "grant_root":
			w.doubt("the agent asks for more than the action itself: " + name)
		default:
			return false
		}
		return true
	}}
}

// moved adds where a change moves its file: {"type": "update", "move_path": PATH}, or one deeper, {"update": {…}}.
func (w *said) moved(change []byte) {
	for _, to := range [][]byte{acp.Get(change, "move_path"), acp.Get(change, "update", "move_path")} {
		if len(to) == 0 || string(to) == "null" {
			continue
		}
		if !w.files(to) {
			w.doubt("what the raw input holds as move_path cannot be read")
		}
	}
}
