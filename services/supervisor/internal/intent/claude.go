package intent

// claude is Claude Code behind its ACP adapter: rawInput is the tool's input as the model made it, {command} for Bash,
// {file_path, …} for files, and notebook_path for notebooks. The common reading fits.
func claude() dialect { return dialect{agents: []string{"claude"}} }
