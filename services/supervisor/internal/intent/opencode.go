package intent

import (
	"slices"

	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// opencode is OpenCode, npm's opencode-ai. Recorded with 1.18.33 and a model of a script (testdata/opencode.ndjson); why it
// is so was read in that version's binary, which holds the program as JavaScript, and with names in
// packages/opencode/src/{acp,tool}/ of the repository anomalyco/opencode:
//   - It asks for what its own configuration calls "ask", and out of the box that is hardly anything: files within the
//     worktree and all commands are "allow". OPENCODE_PERMISSION={"*":"ask"} in its environment has it ask, but a worktree's
//     opencode.json counts for more, runs MCP servers and loads plugins: OPENCODE_DISABLE_PROJECT_CONFIG=1 has it not read.
//   - Even so it runs a line without a command in it ("> file", "cd x") and asks nothing; what a sub-agent (task) asks never
//     reaches the client, so that the turn stands still, and what one does is never reported.
//   - A question's rawInput is not the tool's input but what the tool tells of it (metadata), and replaces it. The kind
//     comes from the permission's name: bash is execute, edit and write are edit, task is think, what is not known is other.
//   - bash: command is a line. Where it runs is the tool's workdir, which the model chooses and the question leaves out; any
//     folder of the worktree will do, which may begin above the session's directory. The report before the question has it,
//     as workdir or, where the model chooses none, as cwd.
//   - edit: filepath, a diff of the same file in the content, and the patch as text in "diff". A patch (apply_patch, which
//     some models are given for edit) has "files", objects with filePath, type (add, update, move, delete) and movePath;
//     filepath then holds their names, relative to the worktree and separated by commas, and is no path. A deletion shows a
//     diff that leaves nothing.
//   - external_directory, asked before the tool's own question: the kind other, with filepath and parentDir, or with command
//     and directories.
//   - read, todowrite, skill and MCP tools (kind other): nothing at all. Reports of the tool call have the input, and what has
//     an empty rawInput is taken to be about what was reported.
//   - Once an edit is allowed, it is written by fs/write_text_file and by OpenCode itself. A patch's fs/write_text_file has a
//     relative path and is refused; OpenCode's own write is not.
func opencode() dialect {
	return dialect{agents: []string{"opencode"}, elsewhere: true, first: func(w *claim, raw []byte, name string, value []byte) bool {
		switch name {
		case "subagent_type":
			w.doubt("the agent starts another, of which nothing is told or asked any more")
			return false
		case "filepath":
			return patches(raw)
		case "files":
			if !patches(raw) {
				return false
			}
			w.patched(value)
			return true
		case "directories", "parentdir":
			w.expect(w.files(value), name)
			return true
		}
		return false
	}, beside: func(w *claim, tc acp.ToolCall) {
		w.located(tc)
		// The question about folders outside is of kind other and has locations, which no other of that kind has and no
		// model can write.
		if tc.Kind != "other" || len(acp.LocationPaths(tc.Locations)) == 0 {
			w.runs(tc)
		}
	}}
}

// located takes over where a command runs from the report of it, if its question leaves that out.
func (w *claim) located(tc acp.ToolCall) {
	if !w.named() || inOneOf(tc.RawInput, "workdir", "cwd") {
		return
	}
	if line, ok := acp.Exact(acp.Get(tc.Reported, "command")); ok && line == w.line {
		for _, name := range [...]string{"workdir", "cwd"} {
			if dir, _ := acp.Exact(acp.Get(tc.Reported, name)); dir != "" {
				w.cwd = append(w.cwd, dir)
				return
			}
		}
	}
	w.doubt("the agent does not say in which directory the command runs")
}

// runs doubts a command in what the agent does not call one: it is another tool's, an MCP server's say, and what that
// does with it, and where, is not known.
func (w *claim) runs(tc acp.ToolCall) {
	if w.named() && tc.Kind != "execute" {
		w.doubt("the agent names a command and does not call this one")
	}
}

// inOneOf reports whether one of some members of a raw input holds a text.
func inOneOf(raw []byte, names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool {
		s, ok := acp.Exact(acp.Get(raw, name))
		return ok && s != ""
	})
}

// patches reports whether a raw input has "files" that are a patch's.
func patches(raw []byte) bool {
	list := acp.Get(raw, "files")
	if len(list) == 0 || list[0] != '[' {
		return false
	}
	found := false
	_ = acp.Elements(list, func(v []byte) bool {
		found = found || v[0] == '{'
		return true
	})
	return found
}

// patched adds the files of a patch. What does more to one than to change it is no edit, which is what OpenCode calls it.
func (w *claim) patched(files []byte) {
	err := acp.Elements(files, func(v []byte) bool {
		file, ok := acp.Exact(acp.Get(v, "filePath"))
		w.expect(ok && file != "", "files")
		w.paths = append(w.paths, file)
		to := acp.Get(v, "movePath")
		moves := len(to) > 0 && string(to) != "null"
		w.expect(!moves || w.files(to), "movePath")
		switch kind, _ := acp.Exact(acp.Get(v, "type")); {
		case moves || kind == "move":
			w.doubt("the patch moves a file")
		case kind == "delete":
			w.doubt("the patch deletes a file")
		case kind != "add" && kind != "update":
			w.doubt("what the patch does to a file is not said")
		}
		return true
	})
	w.expect(err == nil, "files")
}
