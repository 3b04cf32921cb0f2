package intent

// qwen is Qwen Code, npm's @qwen-code/qwen-code, which began as a copy of Gemini CLI and sends what that does not. Read in
// 0.24.4, in chunks/acpAgent-*.js (its session and its sub-agents ask in the same shape):
//   - rawInput is the tool's arguments as the model made them; _meta.toolName names the tool.
//   - run_shell_command: command is a line, and directory, which may be missing, where it runs.
//   - edit and write_file: file_path, with a diff of the same file in the content (buildPermissionRequestContent); the
//     diff's path is the file's name alone where the confirmation knows no more.
//
// The common reading fits.
func qwen() dialect { return dialect{agents: []string{"qwen"}} }
