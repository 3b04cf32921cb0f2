package agents

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// others are agents that are run behind all walls alone. They are installed in the folder "more".
var others = []candidate{
	{
		id: "copilot", title: "GitHub Copilot CLI", command: "copilot", folder: "more",
		name: "copilot", npm: "@github/copilot",
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			return r.preset("copilot", "COPILOT_PROVIDER_BASE_URL="+m.URL+"/v1", "COPILOT_PROVIDER_API_KEY=x", "COPILOT_MODEL=gpt-5"), m
		},
		tools: tools{
			read: pathed("view", "path"), write: worded("create", "path", "file_text"), edit: replacing("edit", "path", "old_str", "new_str"),
			run: lined("bash", "command", map[string]any{"description": "Do it."}),
		},
	},
	{
		id: "droid", title: "Droid", command: "droid", folder: "more",
		name: "droid", npm: "droid",
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			r.file("../.factory/settings.json", fmt.Sprintf(`{"model": "custom:small", "customModels": [{"model": "small", "id": "custom:small", "displayName": "small", "baseUrl": "%s/v1", "apiKey": "x", "provider": "generic-chat-completion-api", "maxOutputTokens": 8000}]}`, m.URL))
			return r.preset("droid", "FACTORY_API_KEY=fk-x"), m
		},
		tools: tools{
			read: pathed("Read", "file_path"), write: worded("Create", "file_path", "content"), edit: replacing("Edit", "file_path", "old_str", "new_str"),
			run: lined("Execute", "command", map[string]any{"riskLevel": "low", "riskLevelReason": "None.", "summary": "Do it."}),
		},
	},
	{
		id: "kimi", title: "Kimi Code", command: "kimi", folder: "more",
		name: "kimi", npm: "@moonshot-ai/kimi-code",
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			return r.preset("kimi-code", "KIMI_MODEL_NAME=small", "KIMI_MODEL_BASE_URL="+m.URL+"/v1", "KIMI_MODEL_API_KEY=x", "KIMI_MODEL_PROVIDER_TYPE=openai",
				"KIMI_MODEL_MAX_CONTEXT_SIZE=100000", newerNode(r.t, "kimi")), m
		},
		tools: tools{
			read: pathed("Read", "path"), write: worded("Write", "path", "content"), edit: replacing("Edit", "path", "old_string", "new_string"),
			run: lined("Bash", "command", map[string]any{"description": "Do it."}),
		},
	},
	{
		id: "nanocoder", title: "Nanocoder", command: "nanocoder", folder: "more",
		name: "nanocoder", npm: "@nanocollective/nanocoder",
		launch: func(r *rig) (*supervisorv1.Agent, *Model) {
			m := r.model(Completions)
			r.file("../.config/nanocoder/agents.config.json", fmt.Sprintf(`{"nanocoder": {"providers": [{"name": "script", "baseUrl": "%s/v1", "apiKey": "x", "models": ["small"]}]}}`, m.URL))
			return r.preset("nanocoder", newerNode(r.t, "nanocoder")), m
		},
		tools: tools{
			read: pathed("read_file", "path"), write: worded("write_file", "path", "content"),
			edit: replacing("string_replace", "path", "old_str", "new_str"), run: lined("execute_bash", "command", nil),
		},
	},
}

// newerNode is PATH with the Node that pi needs. Kimi Code and Nanocoder also need its features, and its support for
// the proxy in environment variables.
func newerNode(t testing.TB, command string) string {
	t.Helper()
	folders := []string{filepath.Dir(located(t, "pi", "node")), filepath.Dir(located(t, "more", command)), os.Getenv("PATH")}
	return "PATH=" + strings.Join(folders, string(os.PathListSeparator))
}
