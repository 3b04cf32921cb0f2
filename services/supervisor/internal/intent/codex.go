package intent

import "github.com/acphost/acphost/services/supervisor/internal/acp"

// codex is Codex: rawInput.command is an argv array, mostly ["bash", "-lc", LINE], with cwd beside it; the shell is
// taken apart as for every argv. A patch comes as diffs, and as "changes", an object whose names are the files.
func codex() dialect {
	return dialect{agents: []string{"codex"}, more: func(w *said, name string, value []byte) {
		if name != "changes" {
			return
		}
		if err := acp.Members(value, func(file string, _ []byte) bool {
			w.paths = append(w.paths, text(file))
			return true
		}); err != nil {
			w.doubt("what the raw input holds as changes cannot be read")
		}
	}}
}
