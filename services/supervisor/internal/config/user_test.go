package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/handlers/ownhandler"
)

func TestAgentUser_UnknownIsError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte("agent:\n  user: no-such-user-here\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Load(file, func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if err := c.CheckFiles(ownhandler.Programs{}); err == nil || !strings.Contains(err.Error(), file+":2:9: agent.user: ") || !strings.Contains(err.Error(), "no-such-user-here") {
		t.Errorf("got %v", err)
	}
	if _, err := c.AgentUser(); err == nil || !strings.HasPrefix(err.Error(), "agent.user: ") {
		t.Errorf("got %v", err)
	}
}

func TestAgentUser_NoneByDefault(t *testing.T) {
	c, err := Load("", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if u, err := c.AgentUser(); u != nil || err != nil {
		t.Errorf("got %v, %v", u, err)
	}
}
