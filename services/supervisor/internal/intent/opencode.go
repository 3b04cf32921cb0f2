package intent

// opencode is OpenCode: rawInput is the tool's input with camel-case or flat names (filePath, filepath). The common
// reading fits.
func opencode() dialect { return dialect{agents: []string{"opencode"}} }
