package intent

// opencode is OpenCode: rawInput is the tool's input, with filePath or filepath for files and command for a shell line.
// The common reading fits. Its question may replace the input by metadata that has none of these, and is then not
// understood.
func opencode() dialect { return dialect{agents: []string{"opencode"}} }
