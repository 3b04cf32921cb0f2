package preset

import (
	"os"
	"path/filepath"
	"testing"
)

func TestNode_SupportedByPackage(t *testing.T) {
	for _, c := range []struct {
		versions, node   string
		supported, known bool
	}{
		{">=22", "v20.20.2", false, true}, {">=22", "v22.0.0", true, true}, {">= 22.1", "v22.0.9", false, true}, {">=18.0.0 <21", "20.1.0", true, true},
		{">=18 <20", "v20.0.0", false, true}, {"^20.1 || >=22", "v20.1.5", true, true}, {"^20.1 || >=22", "v21.0.0", false, true},
		{"18.x || 20.x", "v20.3.1", true, true}, {"~20.2", "v20.3.0", false, true}, {">20", "v20.9.0", false, true}, {"<=20", "v20.9.0", true, true},
		{"*", "v20.0.0", true, true}, {"20", "v20.4.0", true, true}, {"=20.4.0", "v20.4.1", false, true},
		{"", "v20.0.0", false, false}, {"latest", "v20.0.0", false, false}, {">=22", "no version", false, false}, {"18 - 20", "v19.0.0", false, false},
	} {
		if supported, known := SupportsNode(c.versions, c.node); supported != c.supported || known != c.known {
			t.Errorf("%q with %q: got %t, %t, want %t, %t", c.versions, c.node, supported, known, c.supported, c.known)
		}
	}
}

func TestNode_FindsPackageOfProgram(t *testing.T) {
	dir := t.TempDir()
	script := filepath.Join(dir, "node_modules", "@x", "agent", "dist", "index.js")
	if err := os.MkdirAll(filepath.Dir(script), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{script: "", filepath.Join(dir, "node_modules/@x/agent/package.json"): `{"name":"@x/agent","engines":{"node":">=22"}}`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(dir, "agent")
	if err := os.Symlink(script, link); err != nil {
		t.Fatal(err)
	}
	if name, versions := NodeOf(link); name != "@x/agent" || versions != ">=22" {
		t.Errorf("got %q, %q", name, versions)
	}
	if name, versions := NodeOf(filepath.Join(dir, "missing")); name != "" || versions != "" {
		t.Errorf("of no program: %q, %q", name, versions)
	}
}
