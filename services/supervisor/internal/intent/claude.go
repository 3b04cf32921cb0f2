package intent

// claude is Claude Code behind its ACP adapter: rawInput is the tool's input as the model made it, {command} for Bash,
// {file_path, …} for files, notebook_path for notebooks and path for searches. The common reading fits.
func claude() dialect { return dialect{agents: []string{"claude"}} }
