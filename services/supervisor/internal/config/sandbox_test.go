package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSandbox_RejectsConflictingSettings(t *testing.T) {
	for text, want := range map[string]string{
		"sandbox: {mode: enforce, reads: true, require: true, own: [~/.agent, /opt/agent]}": "",
		"sandbox: {mode: off}\nagent: {no_landlock: true}":                                  "",
		"sandbox: {mode: enforce}\nagent: {no_landlock: true}":                              "agent.no_landlock",
		"sandbox: {mode: observe}\nagent: {no_seccomp: true}":                               "agent.no_seccomp",
		"sandbox: {mode: enforce}\nagent: {capabilities: [CHOWN]}":                          "agent.capabilities",
		"sandbox: {mode: on}":                      "enforce",
		"sandbox: {own: [agent]}":                  "absolute",
		"sandbox: {own: [/]}":                      "below /",
		"sandbox: {modes: enforce}":                "modes",
		"sandbox: {mode: observe, network: none}":  "",
		"sandbox: {network: open}":                 "",
		"sandbox: {mode: enforce, network: proxy}": "",
		"sandbox: {network: proxy}":                "sandbox.mode",
		"sandbox: {mode: off, network: none}":      "sandbox.mode",
		"sandbox: {mode: enforce, network: shut}":  "proxy",
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, func(name string) string { return map[string]string{"HOME": "/home/u"}[name] })
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
		if strings.Contains(text, "~") && (err != nil || c.Proto.GetSandbox().GetOwn()[0] != "/home/u/.agent") {
			t.Errorf("%s: got %v", text, c.Proto.GetSandbox().GetOwn())
		}
	}
}

func TestSandbox_FlagOverridesFile(t *testing.T) {
	c, err := Load("", func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	if c.Sandbox() != SandboxOff {
		t.Errorf("the default is %s", c.Sandbox())
	}
	for _, wrong := range [][2]string{{"on", ""}, {"", "shut"}, {"", NetworkProxy}, {SandboxOff, NetworkNone}} {
		if err := c.SetSandbox(wrong[0], wrong[1]); err == nil || !strings.HasPrefix(err.Error(), "--") || c.Sandbox() != SandboxOff || c.Network() != NetworkOpen {
			t.Errorf("%q: got %s, %s, %v", wrong, c.Sandbox(), c.Network(), err)
		}
	}
	if err := c.SetSandbox(SandboxEnforce, NetworkProxy); err != nil || c.Sandbox() != SandboxEnforce || c.Network() != NetworkProxy {
		t.Errorf("got %s, %s, %v", c.Sandbox(), c.Network(), err)
	}
	if err := c.SetSandbox(SandboxOff, ""); err == nil {
		t.Error("the network is to be closed without a sandbox, and that is no error")
	}
	if err := c.SetSandbox(SandboxOff, NetworkOpen); err != nil || c.Sandbox() != SandboxOff {
		t.Errorf("got %s, %v", c.Sandbox(), err)
	}
}

func TestSandbox_AllWallsByDefault(t *testing.T) {
	const ready = "permission: {policy: workspace}\n"
	for text, want := range map[string]struct {
		reads   bool
		network string
	}{
		ready + "sandbox: {mode: enforce}":                              {true, NetworkProxy},
		"permission: {policy: readonly}\nsandbox: {mode: enforce}":      {true, NetworkProxy},
		ready + "sandbox: {mode: enforce, reads: false}":                {false, NetworkProxy},
		ready + "sandbox: {mode: enforce, network: open}":               {true, NetworkOpen},
		ready + "sandbox: {mode: enforce, network: none}":               {true, NetworkNone},
		ready + "sandbox: {mode: observe}":                              {false, NetworkOpen},
		ready + "sandbox: {mode: observe, reads: true, network: proxy}": {true, NetworkProxy},
		ready: {false, NetworkOpen},
		"permission: {policy: ask}\nsandbox: {mode: enforce}":                     {true, NetworkProxy},
		"sandbox: {mode: enforce}":                                                {false, NetworkOpen},
		"handlers: {permission: {command: [/x]}}\nsandbox: {mode: enforce}":       {true, NetworkProxy},
		"permission: {policy: /etc/acphost/rules.yaml}\nsandbox: {mode: enforce}": {true, NetworkProxy},
	} {
		file := filepath.Join(t.TempDir(), "config.yaml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, func(string) string { return "" })
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if c.Reads() != want.reads || c.Network() != want.network {
			t.Errorf("%s: got reads %t, network %s, want %t, %s", text, c.Reads(), c.Network(), want.reads, want.network)
		}
	}
}
