package intent

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func put(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestNames_AboveUsePhysicalFolder(t *testing.T) {
	top := t.TempDir()
	put(t, filepath.Join(top, "ws/pin"), "")
	put(t, filepath.Join(top, "ws/in/below/file"), "")
	put(t, filepath.Join(top, "other/beside-it"), "")
	if err := os.Symlink("../ws/in", filepath.Join(top, "other/link")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		dir         string
		above       bool
		has, hasNot string
	}{
		{"ws/in/below", false, "file", "pin"},
		{"ws/in/below", true, "pin", "beside-it"},
		{"other/link", true, "pin", "beside-it"},
	} {
		names, ok := namesIn(filepath.Join(top, tt.dir), tt.above)
		if !ok || !slices.Contains(names, tt.has) || slices.Contains(names, tt.hasNot) {
			t.Errorf("%s, above %v: got %q, %v, want %s and not %s", tt.dir, tt.above, names, ok, tt.has, tt.hasNot)
		}
	}
	if names, ok := namesIn(filepath.Join(top, "none"), false); ok {
		t.Errorf("a folder that does not exist has the names %q", names)
	}
}

func TestModules_KnownIfDownloaded(t *testing.T) {
	t.Setenv("GOWORK", "")
	cache := t.TempDir()
	for _, end := range []string{".mod", ".zip"} {
		put(t, filepath.Join(cache, "cache/download/example.com/a/@v/v1.0.0"+end), "")
	}
	put(t, filepath.Join(cache, "cache/download/example.com/b/@v/v1.0.0.mod"), "")
	for mod, want := range map[string]bool{
		"module m\n\ngo 1.22\n":                                                    true,
		"module m\nrequire example.com/a v1.0.0\n":                                 true,
		"module m\nrequire (\n\texample.com/a v1.0.0 // indirect\n)\n":             true,
		"module m\nrequire example.com/a v1.0.1\n":                                 false,
		"module m\nrequire example.com/b v1.0.0\n":                                 false,
		"module m\nrequire (\n\texample.com/a v1.0.0\n\texample.com/c v1.0.0\n)\n": false,
		"module m\nrequire example.com/../a v1.0.0\n":                              false,
		"module m\nreplace example.com/a => ../../x\n":                             false,
		"module m\nrequire (example.com/c v1.0.0)\n":                               false,
		"module m\nrequire \"example.com/c\" v1.0.0\n":                             false,
		"": false,
	} {
		dir := t.TempDir()
		if mod != "" {
			put(t, filepath.Join(dir, "go.mod"), mod)
		}
		if got := modulesAtHand(dir, cache); got != want {
			t.Errorf("%q: got %v, want %v", mod, got, want)
		}
		if mod != "" {
			put(t, filepath.Join(dir, "go.work"), "")
			if modulesAtHand(dir, cache) {
				t.Errorf("%q: modules of a workspace are taken for known", mod)
			}
		}
	}
}
