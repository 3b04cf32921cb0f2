package intent

// claude is Claude Code behind its ACP adapter, npm's @agentclientprotocol/claude-agent-acp (before: @zed-industries/
// claude-code-acp), whose name is what it says of itself. Read in 0.100.0, below dist/:
//   - A question's toolCall is whole: permissionToolCall in tool-calls/renderer.js sends kind, rawInput, content and
//     locations. rawInput is the tool's input as the model made it; for the client AIR alone it lacks the text of files,
//     and kind, content and locations must be merged from the tool_call before it.
//   - Bash and PowerShell: kind execute, rawInput.command is a line, and no directory is named; the content is the
//     description (tool-calls/reporters/bash.js).
//   - Write and Edit: kind edit, rawInput.file_path, a diff where the client takes no patches. Write also takes "path" for
//     "file_path", which then counts (normalizeWriteInput in tool-calls/reporters/file-edit.js). NotebookEdit has
//     notebook_path and the kind other.
//   - Read: file_path; Glob and Grep: path, which may be missing; WebFetch: url (the other reporters).
//   - A path that a question is about beyond these is a location (blockedPath in permissions/presentation.js).
//
// The common reading fits.
func claude() dialect { return dialect{agents: []string{"claude"}} }
