package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/gemini"
)

// candidate is an agent that is run under each policy, with the facts of docs/agents.md that are not observed.
type candidate struct {
	id, title string
	// name is the value of --agent, empty for a former adapter. npm is the package, and limits are sentences for users.
	name, npm string
	limits    []string
	// titled is its id in agents.json if it names commands in titles alone; it is run with trusted titles, too.
	titled string
	// command is its program, below the folder of that one which ACPHOST_AGENTS names.
	command, folder string
	launch          func(r *rig) (*supervisorv1.Agent, *Model)
	tools           tools
}

// located is a command in a folder below the one that ACPHOST_AGENTS names, for agents that do not go with the others.
// The test is skipped if it is not installed.
func located(t testing.TB, folder, command string) string {
	t.Helper()
	return executable(t, filepath.Join("..", "..", folder, "node_modules", ".bin", command))
}

// pathed is a tool with one argument of the given name.
func pathed(tool, path string) func(string) Call {
	return func(p string) Call { return Call{Name: tool, Args: map[string]any{path: p}} }
}

// worded is a tool of two arguments.
func worded(tool, first, second string) func(string, string) Call {
	return func(a, b string) Call { return Call{Name: tool, Args: map[string]any{first: a, second: b}} }
}

// replacing is a tool that replaces a text in a file.
func replacing(tool, path, before, after string) func(string, string, string) Call {
	return func(p, a, b string) Call { return Call{Name: tool, Args: map[string]any{path: p, before: a, after: b}} }
}

// lined is a tool that runs a command, with more arguments.
func lined(tool, command string, more map[string]any) func(string) Call {
	return func(line string) Call {
		args := map[string]any{command: line}
		for name, value := range more {
			args[name] = value
		}
		return Call{Name: tool, Args: args}
	}
}

// patched is the text of apply_patch that writes a file.
func patched(path, text string) string {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	return "*** Begin Patch\n*** Add File: " + path + "\n+" + strings.Join(lines, "\n+") + "\n*** End Patch\n"
}

var claudeTools = tools{
	read: pathed("Read", "file_path"), write: worded("Write", "file_path", "content"),
	edit: replacing("Edit", "file_path", "old_string", "new_string"), run: lined("Bash", "command", map[string]any{"description": "Do it."}),
}

var candidates = []candidate{
	{
		id: "claude", title: "Claude", command: "claude-agent-acp", tools: claudeTools,
		name: "claude", npm: "@agentclientprotocol/claude-agent-acp",
		limits: []string{
			"It reads files of the workspace, and runs commands that only read, without asking. To make it ask, " +
				"set `\"permissions\": {\"ask\": [\"Read\", \"Bash\"]}` in `~/.claude/settings.json`.",
			"`--agent claude` starts each command in the session's folder.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Anthropic)
			return r.preset("claude-acp", claudeEnv(m)...), m
		},
	},
	{
		id: "codex", title: "Codex", command: "codex-acp",
		name: "codex", npm: "@agentclientprotocol/codex-acp",
		limits: []string{
			"It has its own sandbox, in which it runs commands without asking. This sandbox needs bubblewrap, and " +
				"a user who may create namespaces. Without it, for example for root, Codex asks for each command. The " +
				"table shows commands outside of it.",
			"`--agent codex` starts it in its mode `read-only`. In its mode `agent`, a model of its own answers " +
				"the requests.",
			"`--agent codex` turns off its shell snapshots (`CODEX_CONFIG`). They put 40 KB of script around each " +
				"command, which rules cannot parse.",
			"A rejected request ends the turn.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			env, m := r.codexEnv()
			return r.preset("codex-acp", env...), m
		},
		tools: codexTools,
	},
	{
		id: "gemini", title: "Gemini CLI", command: "gemini", titled: "gemini",
		name: "gemini", npm: "@google/gemini-cli",
		limits: []string{
			"Its requests show a command only in the title. For the tested version, [rules decide this " +
				"title](permission-requests.md#commands-in-titles). For other versions, acphost asks you.",
			"It runs commands that it considers read-only without asking, and does not report the folder in which " +
				"they ran.",
			"It refuses files outside of the workspace, and files in `.gitignore`, by itself.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Generative)
			r.file("../.gemini/settings.json", gemini.Settings)
			return r.preset("gemini", gemini.Variables(m.URL)...), m
		},
		tools: tools{
			read: pathed("read_file", "file_path"), list: pathed("list_directory", "dir_path"), search: worded("grep_search", "pattern", "dir_path"),
			write: worded("write_file", "file_path", "content"), run: lined("run_shell_command", "command", map[string]any{"description": "Do it."}),
			edit: func(path, before, after string) Call {
				return Call{Name: "replace", Args: map[string]any{"file_path": path, "old_string": before, "new_string": after, "instruction": "Do it."}}
			},
			tricky: "bash -c 'ls' | grep '; echo KEY=written > .env; '",
		},
	},
	{
		id: "opencode", title: "OpenCode", command: "opencode",
		name: "opencode", npm: "opencode-ai",
		limits: []string{
			"By default it asks for nothing. `--agent opencode` makes it ask for everything, and turns off " +
				"sub-agents, whose requests do not reach acphost, and the workspace's `opencode.json`.",
			"It runs a line without a command (`> FILE`) without asking.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			return r.preset("opencode", openCodeEnv(r.t, m, nil)...), m
		},
		tools: tools{
			read: pathed("read", "filePath"), search: worded("grep", "pattern", "path"), write: worded("write", "filePath", "content"),
			edit: replacing("edit", "filePath", "oldString", "newString"), run: lined("bash", "command", map[string]any{"description": "Do it."}),
		},
	},
	{
		id: "qwen", title: "Qwen Code", command: "qwen",
		name: "qwen", npm: "@qwen-code/qwen-code",
		limits: []string{
			"`--agent qwen` starts it in its mode `default`. In its mode `auto`, a model of its own answers the " +
				"requests.",
			"It runs commands that it considers read-only without asking.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			r.file("../.qwen/settings.json", qwenSettings)
			return r.preset("qwen-code", qwenEnv(m)...), m
		},
		tools: tools{
			read: pathed("read_file", "file_path"), list: pathed("list_directory", "path"), search: worded("grep_search", "pattern", "path"),
			write: worded("write_file", "file_path", "content"), edit: replacing("edit", "file_path", "old_string", "new_string"),
			run: lined("run_shell_command", "command", map[string]any{"is_background": false}),
		},
	},
	{
		id: "cline", title: "Cline", command: "cline",
		name: "cline", npm: "cline",
		limits: []string{
			"`--agent cline` makes it ask for everything (`--auto-approve false`), and run without the daemon " +
				"that all sessions of a home folder share (`CLINE_SESSION_BACKEND_MODE=local`): acphost would end " +
				"this daemon with the first agent.",
			"`acphost agents login cline` is for providers with an account. For others, set `CLINE_API_KEY`, " +
				"`CLINE_PROVIDER` and `CLINE_MODEL`.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			return r.preset("cline", r.clineEnv(m)...), m
		},
		tools: tools{
			read: func(path string) Call {
				return Call{Name: "read_files", Args: map[string]any{"files": []any{map[string]any{"path": path}}}}
			},
			edit: func(path, before, after string) Call {
				return Call{Name: "apply_patch", Args: map[string]any{"input": "*** Begin Patch\n" + strings.Join(changing(path, before, after), "\n") + "\n*** End Patch"}}
			},
			patch: func(path, text string) Call {
				return Call{Name: "apply_patch", Args: map[string]any{"input": patched(path, text)}}
			},
			run: func(line string) Call {
				return Call{Name: "run_commands", Args: map[string]any{"commands": []any{line}}}
			},
		},
	},
	{
		id: "pi", title: "pi", command: "pi-acp", titled: "pi-acp",
		name: "pi", npm: "pi-acp",
		limits: []string{
			"The adapter starts `pi` (npm package `@earendil-works/pi-coding-agent`; tested: 0.87.1 with Node " +
				"22), which must be on PATH.",
			"**pi never asks.** Without the sandbox, a policy prevents nothing: acphost records the actions that " +
				"pi reports, and `permission.on_unasked: cancel` ends the turn after such an action. Use the " +
				"[sandbox](sandbox.md), [another user](security.md#running-agents-as-another-user) or a container.",
			"Its reports show a command only in the title. acphost records each as unclear, unless you [trust the " +
				"titles](permission-requests.md#commands-in-titles). Then it records only those that no rule allows.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			r.file("../.pi/agent/models.json", fmt.Sprintf(`{"providers": {"script": {"baseUrl": "%s/v1", "api": "openai-completions", "apiKey": "x", "models": [{"id": "small"}]}}}`, m.URL))
			r.file("../.pi/agent/settings.json", `{"defaultProvider": "script", "defaultModel": "small", "quietStartup": true}`)
			own := filepath.Dir(located(r.t, "pi", "pi")) // pi, and the Node that it needs
			return r.preset("pi-acp", "PI_OFFLINE=1", "PATH="+own+string(os.PathListSeparator)+os.Getenv("PATH")), m
		},
		tools: tools{
			read: pathed("read", "path"), write: worded("write", "path", "content"), run: lined("bash", "command", nil),
			edit: func(path, before, after string) Call {
				return Call{Name: "edit", Args: map[string]any{"path": path, "edits": []any{map[string]any{"oldText": before, "newText": after}}}}
			},
		},
	},
	{
		id: "claude-code-acp", title: "Claude, the former adapter", command: "claude-code-acp",
		npm: "@zed-industries/claude-code-acp",
		limits: []string{
			"Replaced by the new adapter, [Claude](#claude).",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Anthropic)
			return r.start([]string{executable(r.t, "claude-code-acp")}, claudeEnv(m)...), m
		},
		tools: tools{
			read: pathed("mcp__acp__Read", "file_path"), write: worded("mcp__acp__Write", "file_path", "content"),
			edit: replacing("mcp__acp__Edit", "file_path", "old_string", "new_string"), run: lined("mcp__acp__Bash", "command", map[string]any{"description": "Do it.", "timeout": 60_000}),
		},
	},
	{
		id: "codex-zed", title: "Codex, the former adapter", command: "codex-acp", folder: "former", tools: formerCodexTools(),
		npm: "@zed-industries/codex-acp",
		limits: []string{
			"Replaced by the new adapter, [Codex](#codex). It needs `bwrap` on PATH to change a file by a patch.",
		},
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			env, m := r.codexEnv()
			return r.start([]string{located(r.t, "former", "codex-acp")}, env...), m
		},
	},
}

// changing are the lines of a patch that replaces a text in a file that there is.
func changing(path, before, after string) []string {
	text, _ := os.ReadFile(path)
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.Contains(line, before) {
			return []string{"*** Update File: " + path, "@@", "-" + line, "+" + strings.Replace(line, before, after, 1)}
		}
	}
	return []string{"*** Add File: " + path, "+" + after}
}

// codexTools have Codex ask to run each command outside of its sandbox. Inside of it Codex asks no questions, and where
// a user may not create namespaces no command runs inside of it.
var codexTools = tools{
	read:  func(path string) Call { return shell("cat " + path) },
	edit:  func(path, before, after string) Call { return patch(changing(path, before, after)...) },
	patch: func(path, text string) Call { return Call{Name: "apply_patch", Free: patched(path, text)} },
	run:   shell,
}

// formerCodexTools write whole files: to change one, the former adapter reads it in a sandbox that it does not bring
// along.
func formerCodexTools() tools {
	t := codexTools
	t.edit = func(path, before, after string) Call {
		text, _ := os.ReadFile(path)
		return t.patch(path, strings.Replace(string(text), before, after, 1))
	}
	return t
}
