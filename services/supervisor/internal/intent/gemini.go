package intent

// gemini is Gemini CLI. Seen in 0.61: neither its permission questions nor its reports carry rawInput. An edit or a
// write is a diff with its absolute path, and has it as the only location; a read has a location. Of a shell command
// the title is all there is (the kind is execute, the locations are empty, the content is the model's explanation), and
// of a search, a fetch or an MCP tool too. A title identifies nothing, so these are never understood and go to a person.
func gemini() dialect { return dialect{agents: []string{"gemini"}} }
