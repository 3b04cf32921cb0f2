package gemini

import (
	"os"
	"path/filepath"
	"testing"
)

// Command is the command line of the Gemini CLI that "npm ci" installs in test/peers, in ACP mode.
func Command(t testing.TB) []string {
	t.Helper()
	// Tests run in the folder of their package; the path of this file is trimmed by -trimpath.
	root, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; root = filepath.Dir(root) {
		if _, err := os.Stat(filepath.Join(root, "go.work")); err == nil {
			break
		}
		if root == filepath.Dir(root) {
			t.Fatal("no folder above the test's own has go.work: run the test within the repository")
		}
	}
	cli := filepath.Join(root, "test", "peers", "node_modules", "@google", "gemini-cli", "bundle", "gemini.js")
	if _, err := os.Stat(cli); err != nil {
		t.Fatalf("Gemini CLI is not installed; run \"make test-deps\": %v", err)
	}
	return []string{"node", cli, "--acp"}
}

// Settings are the text of ~/.gemini/settings.json with which the CLI needs no login, and sends no reports.
const Settings = `{"security":{"auth":{"selectedType":"gemini-api-key"}},"privacy":{"usageStatisticsEnabled":false},"general":{"enableAutoUpdate":false}}`

// Variables connect the CLI to a server at url only: a key without a meaning, and no relaunch.
func Variables(url string) []string {
	return []string{"GEMINI_API_KEY=x", "GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_CLI_NO_RELAUNCH=1", "GEMINI_CLI_TRUST_WORKSPACE=true"}
}

// Env is an environment in which the CLI asks no questions and connects only to the server, with its own home.
func (s *Server) Env(t testing.TB) []string {
	t.Helper()
	home := t.TempDir()
	settings := filepath.Join(home, ".gemini", "settings.json")
	if err := os.MkdirAll(filepath.Dir(settings), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(settings, []byte(Settings), 0o600); err != nil {
		t.Fatal(err)
	}
	return append(Variables(s.URL), "PATH="+os.Getenv("PATH"), "HOME="+home, "TMPDIR="+t.TempDir(), "LANG=C.UTF-8")
}
