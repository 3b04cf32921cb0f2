package host

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/config"
)

func TestPermission_RequiresAdminPolicy(t *testing.T) {
	dir := t.TempDir()
	policy := filepath.Join(dir, "admin.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(dir, "own")
	if err := os.WriteFile(own, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, config string
		routes       map[string]string
		want         string
	}{
		{"permd has it", "permission: {admin_policy: " + policy + "}", nil, ""},
		{"permd has it in a chain", "permission: {admin_policy: " + policy + ", chain: [{command: [" + own + "]}, {command: [permd]}]}", nil, ""},
		{"permd has another", "permission: {admin_policy: " + filepath.Join(dir, "other.yaml") + "}", nil, "would not count"},
		{"another program decides", "permission: {command: [" + own + "]}", nil, "ask both"},
		{"the front decides", "permission: {admin_policy: " + policy + "}", map[string]string{methodPermission: "front"}, "turn off"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "config.yaml")
			if err := os.WriteFile(file, []byte(c.config+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := config.Load(file, func(string) string { return "" })
			if err != nil {
				t.Fatal(err)
			}
			h := &host{opts: Options{Config: cfg, Mode: ModeRun}, handlers: &handlers{routes: c.routes}}
			err = h.administered(policy)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			if err := h.administered(filepath.Join(dir, "not-there")); err != nil {
				t.Errorf("without one: %v", err)
			}
		})
	}
}
