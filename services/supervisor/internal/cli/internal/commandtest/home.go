package commandtest

import (
	"os"
	"path/filepath"
	"testing"
)

// AgentHome creates a home folder whose PATH has one installed agent, and a file with an agent of the user.
func AgentHome(t *testing.T) (home string, env map[string]string) {
	t.Helper()
	home = t.TempDir()
	for name, text := range map[string]string{
		"bin/gemini":                  "#!/bin/sh\n",
		"bin/mine":                    "#!/bin/sh\n",
		".config/acphost/agents.json": `{"agents": [{"id": "mine", "name": "My\tagent", "distribution": {"npx": {"package": "@me/mine", "cmd": "mine", "args": ["acp"], "env": {"MODE": "acp"}}}}]}`,
	} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return home, map[string]string{"HOME": home, "PATH": filepath.Join(home, "bin")}
}
