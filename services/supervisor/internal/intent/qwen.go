package intent

import "github.com/acphost/acphost/services/supervisor/internal/acp"

// qwen is Qwen Code, npm's @qwen-code/qwen-code, which began as a copy of Gemini CLI and sends what that does not. Recorded
// with 0.24.4 and a model of a script (testdata/qwen.ndjson); why it is so was read in chunks/acpAgent-*.js (its session,
// its sub-agents and its workflows ask in the same shape):
//   - Its mode is "auto" out of the box: the model itself says what needs no question, and edits within the workspace need
//     none. --approval-mode default has it ask, except for reads within the workspace and for commands that it takes for
//     reading ("cat .env"). A workspace's .qwen/settings.json may allow more, and names hooks and MCP servers that are run
//     without a question, unless the user's settings switch security.folderTrust on.
//   - rawInput is the tool's arguments as the model made them; _meta.toolName names the tool. That of an MCP server (kind
//     other, mcp__SERVER__TOOL) may have a command too, which that server runs wherever it likes.
//   - run_shell_command: command is a line, and directory, always absolute, where it runs; without it that is the session's.
//   - edit and write_file: file_path, always absolute, with a diff of the same file in the content
//     (buildPermissionRequestContent); the diff's path is the file's name alone where the confirmation knows no more.
//   - read_file: file_path; grep_search and glob: path, which may be missing; web_fetch: url; agent: kind other, its prompt.
//   - ask_user_question: kind think, questions. The answers would be beside the outcome ("answers"), which ACP does not
//     have: to allow it is to answer nothing, and nobody but a person should.
//   - Two options may be of kind allow_once: proceed_once, and one that switches the mode as well; allow_always is kept in
//     the user's or the workspace's settings, and for edits switches the mode to auto-edit.
//   - Once an edit is allowed, it is written by fs/write_text_file where the client has it, never by Qwen Code itself.
func qwen() dialect {
	return dialect{agents: []string{"qwen"}, first: func(w *claim, _ []byte, name string, _ []byte) bool {
		if name == "questions" {
			w.doubt("the agent asks a question of its own, which allowing it does not answer")
		}
		return false
	}, beside: func(w *claim, tc acp.ToolCall) { w.runs(tc) }}
}
