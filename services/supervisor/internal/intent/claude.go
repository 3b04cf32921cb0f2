package intent

import (
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// claude is Claude Code behind its ACP adapter, npm's @agentclientprotocol/claude-agent-acp (before: @zed-industries/
// claude-code-acp), whose name is what it says of itself. Recorded with 0.100.0 and a model of a script
// (testdata/claude.ndjson); why it is so was read below its dist/:
//   - It does everything itself: no fs/*, no terminal/*. It asks before it changes something or looks outside of the
//     workspace; it reads files of the workspace and runs commands that it takes for reading ("cat .env") without a
//     question, and reports only the commands in a form that is judged afterwards. "permissions": {"ask": ["Read", "Bash"]}
//     in the user's .claude/settings.json has it ask for these too. A workspace's .claude/settings.json may allow more; its
//     hooks, and the MCP servers of its .mcp.json, are run when a session is opened, without a question.
//   - A question's toolCall is whole: permissionToolCall in tool-calls/renderer.js sends name, kind, rawInput, content and
//     locations. rawInput is the tool's input as it was checked; that of a report is as the model made it. For the client
//     AIR alone it lacks the text of files, and kind, content and locations must be merged from the tool_call before it.
//   - Bash and PowerShell: kind execute, rawInput.command is a line; the content is the description. No directory is named,
//     and it need not be the session's: a "cd" of an earlier call counts, within the session's directories, unless
//     CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR is set. Files that it finds in the line itself are locations, and those are
//     where they really are (blockedPath in permissions/presentation.js). Monitor runs a command too, and has the kind other.
//   - Write and Edit: kind edit, rawInput.file_path, a diff where the client takes no patches. NotebookEdit has
//     notebook_path and the kind other, and is an edit all the same.
//   - Read: file_path; Glob and Grep: path, which may be missing; WebFetch: url (the other reporters).
//   - ExitPlanMode and EnterPlanMode: kind switch_mode. The options that allow always switch to modes that ask less.
//   - Workflow, Skill and tools of MCP servers ("mcp__SERVER__TOOL"): kind other, and any members that the model likes. What
//     is called command or path there is no shell's and may be no file's.
func claude() dialect {
	return dialect{agents: []string{"claude"}, elsewhere: true, beside: func(w *claim, tc acp.ToolCall) {
		if (tc.Name == "NotebookEdit" || tc.Name == "") && tc.Kind == "other" && acp.Get(tc.RawInput, "notebook_path") != nil {
			w.kind = "edit"
		}
		switch {
		case tc.Name == "" || slices.Contains([]string{"Bash", "PowerShell", "Monitor"}, tc.Name): // older adapters send no name
		case w.named():
			w.doubt("what is called a command is the input of a tool that is not known to run any")
		case len(w.paths)+len(w.cwd) > 0 && !slices.Contains([]string{"Read", "Write", "Edit", "MultiEdit", "NotebookEdit", "NotebookRead", "Glob", "Grep", "LS"}, tc.Name):
			w.doubt("what is called a path is the input of a tool that is not known to work on files")
		}
	}}
}
