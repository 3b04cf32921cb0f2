package intent

// gemini is Gemini CLI, npm's @google/gemini-cli. Read in 0.61.0, in the bundle's session for ACP (bundle/gemini-*.js):
//   - A question's toolCall has title, content, locations and kind, and no rawInput; neither have its reports.
//   - An edit or a write is a diff with its absolute path, which is the only location too. Writing nothing into a file is a
//     diff as well, which says "delete" in its _meta: the file stays.
//   - A shell command has the kind execute and no location; its content is the model's explanation. Of a search, a fetch or
//     an MCP tool the title is all there is, too.
//   - A prompt that names a file outside of the workspace is asked about with the kind read, no location, and the path in
//     title and text alone.
//
// A title identifies nothing, so all but edits and reads with a location are never understood and go to a person.
func gemini() dialect { return dialect{agents: []string{"gemini"}} }
