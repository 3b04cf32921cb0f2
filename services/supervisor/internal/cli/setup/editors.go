package setup

import (
	"cmp"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/acphost/acphost/services/supervisor/internal/config/preset"
)

// entry is an agent in an editor's settings, run by acphost.
type entry struct {
	id      string   // id of the agent in the editor, which also identifies the agent's history
	others  []string // other ids that users may have given the agent
	command []string
}

// settings edits the text of a file that an editor reads.
type settings interface {
	// merge returns the text with the entries.
	merge(text []byte, entries []entry) ([]byte, error)
	// remove returns the text without acphost's entries. Entries in before that they had replaced are restored. Empty
	// means that the file can be removed.
	remove(text, before []byte) ([]byte, error)
}

// editor is an editor, or its plugin for ACP.
type editor struct {
	name  string // as typed by users
	title string
	file  func(env func(string) string) string
	id    func(preset.Agent) string // returns "" if the editor does not support the agent
	form  settings
	// then describes the user's next step, or is empty.
	then string
}

var editors = []editor{
	{
		name: "zed", title: "Zed",
		// Zed reads ~/.config on macOS, too.
		file: func(env func(string) string) string { return filepath.Join(configDir(env), "zed", "settings.json") },
		id:   func(a preset.Agent) string { return a.ID }, // the ids of the ACP registry
		form: servers{custom: true},
	},
	{
		name: "jetbrains", title: "JetBrains",
		file: func(env func(string) string) string { return filepath.Join(env("HOME"), ".jetbrains", "acp.json") },
		id:   func(a preset.Agent) string { return cmp.Or(a.Name, a.ID) }, // the name that the chat shows
		form: servers{},
	},
	{
		name: "neovim", title: "CodeCompanion, a plugin of Neovim,",
		file: func(env func(string) string) string {
			return filepath.Join(configDir(env), cmp.Or(env("NVIM_APPNAME"), "nvim"), "lua", "acphost.lua")
		},
		id: known(map[string]string{"claude-acp": "claude_code", "codex-acp": "codex", "gemini": "gemini_cli", "opencode": "opencode"}),
		form: block{
			head: `-- acphost setup: begin. "acphost setup neovim" writes these lines.
local function through(name, command)
  return function()
    return require("codecompanion.adapters").extend(name, { commands = { default = command } })
  end
end
return {`,
			foot: "}\n-- acphost setup: end",
			line: func(e entry) string {
				return "  " + e.id + ` = through("` + e.id + `", { ` + quoted(e.command, ", ") + " }),"
			},
			key: func(line string) string { return word(line) },
		},
		then: `In the call of CodeCompanion's setup, say where its adapters are:

    require("codecompanion").setup({ adapters = { acp = require("acphost") } })`,
	},
	{
		name: "emacs", title: "agent-shell, a package of Emacs,",
		file: emacsFile,
		id: known(map[string]string{
			"claude-acp": "agent-shell-anthropic-claude-acp-command", "codex-acp": "agent-shell-openai-codex-acp-command",
			"gemini": "agent-shell-google-gemini-acp-command", "opencode": "agent-shell-opencode-acp-command",
			"qwen-code": "agent-shell-qwen-acp-command", "pi-acp": "agent-shell-pi-acp-command",
		}),
		form: block{
			head: ";; acphost setup: begin. \"acphost setup emacs\" writes these lines.\n(with-eval-after-load 'agent-shell",
			foot: "  t)\n;; acphost setup: end",
			line: func(e entry) string { return "  (setq " + e.id + " '(" + quoted(e.command, " ") + "))" },
			key:  func(line string) string { return word(strings.TrimPrefix(strings.TrimSpace(line), "(setq ")) },
		},
	},
}

// find returns the editor with a name.
func find(name string) (editor, bool) {
	i := slices.IndexFunc(editors, func(e editor) bool { return e.name == name })
	if i < 0 {
		return editor{}, false
	}
	return editors[i], true
}

// names returns the names of the editors.
func names() []string {
	var all []string
	for _, e := range editors {
		all = append(all, e.name)
	}
	return all
}

func known(ids map[string]string) func(preset.Agent) string {
	return func(a preset.Agent) string { return ids[a.ID] }
}

func configDir(env func(string) string) string {
	if dir := env("XDG_CONFIG_HOME"); filepath.IsAbs(dir) && runtime.GOOS != "darwin" {
		return dir
	}
	return filepath.Join(env("HOME"), ".config")
}

// emacsFile returns the init file of Emacs: the first one that exists, else the second.
func emacsFile(env func(string) string) string {
	modern := filepath.Join(configDir(env), "emacs", "init.el")
	for _, file := range []string{filepath.Join(env("HOME"), ".emacs"), filepath.Join(env("HOME"), ".emacs.d", "init.el"), modern} {
		if exists(file) {
			return file
		}
	}
	return filepath.Join(env("HOME"), ".emacs.d", "init.el")
}

// quoted returns words as string literals of Lua and of Emacs Lisp, which have the same syntax for printable
// characters. The words have no control characters.
func quoted(words []string, between string) string {
	var all []string
	for _, w := range words {
		all = append(all, `"`+strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(w)+`"`)
	}
	return strings.Join(all, between)
}

// word returns the first word of a line.
func word(line string) string {
	fields := strings.Fields(line)
	if len(fields) == 0 {
		return ""
	}
	return fields[0]
}
