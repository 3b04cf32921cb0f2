package intent

import "github.com/acphost/acphost/services/supervisor/internal/acp"

// opencode is OpenCode, npm's opencode-ai. Its package starts a binary that holds the program as JavaScript; read in
// opencode-linux-x64 1.18.33, and, with names, in packages/opencode/src/acp/{permission,tool}.ts of the repository
// anomalyco/opencode (before: sst/opencode):
//   - A question's rawInput is not the tool's input but what the tool tells of it (metadata), and replaces it. The kind
//     comes from the permission's name: bash is execute, edit and write are edit, what is not known is other.
//   - bash: command is a line. The tool's workdir is not in the question, so where it runs is not said; reports of the tool
//     call have it.
//   - edit: filepath, a diff of the same file in the content, and the patch as text in "diff". More than one file: "files",
//     objects with filePath and movePath; filepath then holds their names separated by commas and is no path.
//   - external_directory: the kind other, with filepath and parentDir, or with command and directories.
//   - read, MCP tools and others: nothing at all. Reports of the tool call have filePath and the rest of the input, but the
//     question's empty rawInput replaces it, and it is not understood.
//   - Once an edit is allowed, it is written by fs/write_text_file and by OpenCode itself.
func opencode() dialect {
	return dialect{agents: []string{"opencode"}, elsewhere: true, first: func(w *said, raw []byte, name string, value []byte) bool {
		several := false
		if list := acp.Get(raw, "files"); len(list) > 0 && list[0] == '[' {
			_ = acp.Elements(list, func(v []byte) bool {
				several = several || v[0] == '{'
				return true
			})
		}
		switch {
		case name == "filepath" && several:
		case name == "files" && several:
			w.changed(value)
		case name == "directories" || name == "parentdir":
			if !w.files(value) {
				w.doubt("what the raw input holds as " + name + " cannot be read")
			}
		default:
			return false
		}
		return true
	}}
}

// changed adds the files of a patch to several.
func (w *said) changed(files []byte) {
	err := acp.Elements(files, func(v []byte) bool {
		file, ok := acp.String(acp.Get(v, "filePath"))
		if !ok || file == "" {
			w.doubt("what the raw input holds as files cannot be read")
		}
		w.paths = append(w.paths, file)
		if to := acp.Get(v, "movePath"); len(to) > 0 && string(to) != "null" && !w.files(to) {
			w.doubt("what the raw input holds as movePath cannot be read")
		}
		return true
	})
	if err != nil {
		w.doubt("what the raw input holds as files cannot be read")
	}
}
