package intent

// gemini is Gemini CLI: its permission questions carry no rawInput. Edits and writes come as diffs with their path;
// what a command would run stands in the title alone, which identifies nothing. So a question about a command is never
// understood in full, and goes to a person.
func gemini() dialect { return dialect{agents: []string{"gemini"}} }
