package config_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/config"
)

func TestCapabilities_WarnsOfDangerous(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string][]string{
		"agent: {capabilities: [CHOWN, NET_BIND_SERVICE, cap_sys_admin]}":  {"agent.capabilities keeps CHOWN", "agent.capabilities keeps SYS_ADMIN"},
		"handlers: {terminal: {settings: {capabilities: [DAC_OVERRIDE]}}}": {"handlers.terminal.settings.capabilities keeps DAC_OVERRIDE"},
		"agent: {capabilities: [NET_BIND_SERVICE]}":                        nil,
		"log: {level: info}": nil,
	} {
		file := filepath.Join(dir, "config.yaml")
		if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := config.Load(file, func(string) string { return "" })
		if err != nil {
			t.Fatal(err)
		}
		got := c.Dangers()
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}
