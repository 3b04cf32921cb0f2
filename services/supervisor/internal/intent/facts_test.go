package intent

import (
	"fmt"
	"os"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

func TestWhatACommandDoesIsPartOfIt(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Place = func(path string) Place {
		at := l.place(path)
		at.GitInternal = strings.Contains(path, "/.git/")
		if at.Resolved == "" {
			at.Resolved, at.Inside = path, true
		}
		return at
	}
	if err := os.Symlink("/proc/self/cwd", l.real+"/here"); err != nil {
		t.Fatal(err)
	}
	for line, want := range map[string]string{
		"cat here/main.go":           "unknown",
		"cat sub/../here/../x":       "unknown",
		"cat innocent":               "read .env true",
		"cat main.go":                "read main.go true",
		"cat way-out/f":              "read outside/deep/f false",
		"cd sub && cat x":            "read sub true metadata; read sub/x true",
		"cd way-out && ls":           "read outside/deep false metadata; read outside/deep false metadata",
		"cd sub; cat x":              "read sub true metadata; unknown",
		"grep -rn TODO .":            "read real true recursive",
		"cat x; rg --pre y z":        "read x true; unknown",
		"cat way-in/../../outside/f": "read outside/f false",
		"echo $HOME; frobnicate":     "; unknown",
		"tee -a .git/config":         "unknown",
		"tee -a notes":               "write notes true",
	} {
		a := l.call(s, map[string]any{"command": line})
		var got []string
		for _, sub := range a.GetCommand().GetSubCommands() {
			got = append(got, l.does(sub.GetFacts()))
		}
		if got := strings.Join(got, "; "); got != want {
			t.Errorf("%s: got %q, want %q", line, got, want)
		}
	}
	s.StaysPut = false
	if a := Question(s, acp.ToolCall{ID: "1", Kind: "execute", RawInput: []byte(`{"command":"cat main.go"}`)}); l.does(a.GetCommand().GetSubCommands()[0].GetFacts()) == "" {
		t.Errorf("a question has no facts: %v", a)
	}
}

func (l *linked) does(f *permissionv1.Facts) string {
	if !f.GetKnown() {
		return "unknown"
	}
	var got []string
	for _, file := range f.GetFiles() {
		text := fmt.Sprintf("%s %s %t", strings.ToLower(strings.TrimPrefix(file.GetAccess().String(), "ACCESS_")),
			strings.TrimPrefix(strings.TrimPrefix(file.GetResolvedPath(), l.real+"/"), l.base+"/"), file.GetInsideRoots())
		if file.GetRecursive() {
			text += " recursive"
		}
		if file.GetMetadataOnly() {
			text += " metadata"
		}
		got = append(got, text)
	}
	return strings.Join(got, ", ")
}
