package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// module writes a module and returns its folder.
func module(t *testing.T, files map[string]string) string {
	t.Helper()
	t.Setenv("GOWORK", "off")
	dir := t.TempDir()
	files["go.mod"] = "module example.com/m\n\ngo 1.26\n"
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestCheck_ReportsErrorsOfOtherSystems(t *testing.T) {
	for name, c := range map[string]struct{ file, text, want string }{
		"a type":             {"m_darwin.go", "package m\n\nvar n int = name()\n", "m_darwin.go:3:13: cannot use name()"},
		"a missing function": {"sub/sub_darwin.go", "package sub\n\nfunc f() { missing() }\n", "undefined: missing"},
		"a declaration less": {"sub/uses.go", "package sub\n\nimport \"example.com/m\"\n\nvar N = m.OnLinux\n", "undefined: m.OnLinux"},
		"a test":             {"m_test.go", "package m\n\nimport \"testing\"\n\nfunc TestX(t *testing.T) { t.Nothing() }\n", "t.Nothing undefined"},
		"a test from outside": {"x_test.go", "package m_test\n\nimport (\n\t\"testing\"\n\n\t\"example.com/m\"\n)\n\nfunc TestX(*testing.T) { m.Gone() }\n",
			"undefined: m.Gone"},
		"an import unused": {"u_darwin.go", "package m\n\nimport \"os\"\n", `"os" imported and not used`},
		"syntax":           {"u_darwin.go", "package m\n\nfunc {\n", "u_darwin.go:3:6: expected 'IDENT'"},
		"a wide constant":  {"u_darwin.go", "package m\n\nconst n int32 = 1 << 40\n", "overflows"},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{
				"m.go":       "package m\n\nfunc name() string { return \"\" }\n",
				"m_linux.go": "package m\n\nconst OnLinux = 1\n",
				"sub/sub.go": "package sub\n",
				c.file:       c.text,
			}
			_, err := check(module(t, files), "darwin", "arm64", "./...")
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCheck_AcceptsCodeOfOtherSystems(t *testing.T) {
	dir := module(t, map[string]string{
		"m.go":           "package m\n\nimport \"net\" // Go's own, which imports what Go vendors\n\nvar Dialer net.Dialer\n",
		"m_linux.go":     "package m\n\nvar n int = \"only darwin is checked\"\n",
		"export_test.go": "package m\n\nconst Seen = 1\n",
		"x_test.go":      "package m_test\n\nimport \"example.com/m\"\n\nvar _ = m.Seen\n",
	})
	if own, err := check(dir, "darwin", "arm64", "./..."); err != nil || own != 3 { // m, m as its tests see it, m_test
		t.Errorf("%d packages, %v", own, err)
	}
	if _, err := check(dir, "linux", "amd64", "./..."); err == nil {
		t.Error("m_linux.go compiles")
	}
}
