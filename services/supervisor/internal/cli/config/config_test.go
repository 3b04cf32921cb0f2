package config

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestConfigCheck_PrintsProblemsWithPlaces(t *testing.T) {
	file := commandtest.ConfigFile(t, "log:\n  level: loud\nagent:\n  stop_grace_ms: 600001\n")
	status, stdout, stderr := (&commandtest.Call{}).Run(t, New, "config", "check", file)
	want := file + `:2:10: log.level: expected "debug", "info", "warn" or "error", got "loud"` + "\n" +
		file + ":4:18: agent.stop_grace_ms: expected 1 to 600000, or 0 for the default, got 600001\n"
	if status != 1 || stdout != want || stderr != "" {
		t.Errorf("status %d, stderr %q, output\n%swant 1 and\n%s", status, stderr, stdout, want)
	}
	file = commandtest.ConfigFile(t, "permission: {policy: missing.yaml}\n")
	if status, stdout, _ := (&commandtest.Call{}).Run(t, New, "config", "check", "--config", file); status != 1 || !strings.Contains(stdout, file+":1:22: permission.policy: stat ") {
		t.Errorf("a missing rule file: status %d, output %q", status, stdout)
	}
}

func TestConfigCheck_PrintsOK(t *testing.T) {
	file := commandtest.ConfigFile(t, "log: {level: info}\n")
	if err := os.Chmod(file, 0o660); err != nil {
		t.Fatal(err)
	}
	status, stdout, _ := (&commandtest.Call{Env: map[string]string{"ACPHOST_CONFIG": file}}).Run(t, New, "config", "check")
	if status != 0 || !strings.HasSuffix(stdout, file+": ok\n") || !strings.HasPrefix(stdout, "warning: ") {
		t.Errorf("status %d, output %q; want 0, a warning, and ok", status, stdout)
	}
	status, stdout, _ = (&commandtest.Call{}).Run(t, New, "config", "check")
	if status != 0 || stdout != "no configuration file, the defaults count: ok\n" {
		t.Errorf("without a file: status %d, output %q", status, stdout)
	}
}

func TestConfigCheck_WarnsOfSandboxWithoutPolicy(t *testing.T) {
	const unruled = "warning: sandbox.mode is enforce, and there is no policy"
	for text, want := range map[string]bool{
		"sandbox: {mode: enforce, require: true}\n":                   true,
		"sandbox: {mode: enforce}\npermission: {policy: workspace}\n": false,
		"sandbox: {mode: \"off\"}\n":                                  false,
	} {
		status, stdout, _ := (&commandtest.Call{}).Run(t, New, "config", "check", commandtest.ConfigFile(t, text))
		if status != 0 || strings.Contains(stdout, unruled) != want || !strings.HasSuffix(stdout, ": ok\n") {
			t.Errorf("%q: status %d, output %q", text, status, stdout)
		}
	}
}

func TestConfigShow_PrintsEffectiveWithoutSecrets(t *testing.T) {
	file := commandtest.ConfigFile(t, "handlers: {mine: {command: [/bin/mine], env: {API_TOKEN: hush}}}\n")
	status, stdout, stderr := (&commandtest.Call{}).Run(t, New, "config", "show", "--config", file)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, want := range []string{"# " + file + "\n", "max_message_bytes: 104857600", "- fsd", "[redacted]"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not shown:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "hush") {
		t.Errorf("a secret is shown:\n%s", stdout)
	}
}
