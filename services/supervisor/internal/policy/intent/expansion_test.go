package intent

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
)

// argvs are the commands of an action in short, a dynamic one with a "?" in front.
func argvs(a *permissionv1.Action) string {
	var all []string
	for _, sub := range a.GetCommand().GetSubCommands() {
		words := strings.Join(sub.GetArgv(), " ")
		if sub.GetDynamic() {
			words = "?" + words
		}
		all = append(all, words)
	}
	return strings.Join(all, "; ")
}

func TestExpansion_UsesVisibleFiles(t *testing.T) {
	l := newLinked(t)
	local := l.inSession()
	local.Local = true
	for name, tt := range map[string]struct {
		session Session
		params  map[string]any
		environ string
		want    string
	}{
		"a pattern":                        {local, map[string]any{"command": "cat *.go"}, "", "cat main.go"},
		"a pattern in the directory given": {local, map[string]any{"command": "cat ../*.go *", "cwd": l.ws + "/sub"}, "", "?cat ../*.go up"},
		"a pattern for a shell":            {local, map[string]any{"command": "sh", "args": []string{"-c", "cat *.go"}}, "", "cat main.go"},
		"a pattern without a shell":        {local, map[string]any{"command": "cat", "args": []string{"*.go"}}, "", "cat *.go"},
		"a harmless environment":           {local, map[string]any{"command": "cat *.go", "env": []map[string]string{{"name": "NO_COLOR", "value": "1"}}}, "", "cat main.go"},
		"another environment":              {local, map[string]any{"command": "cat *.go", "env": []map[string]string{{"name": "GLOBIGNORE", "value": "x"}}}, "", "?cat *.go"},
		"our own environment":              {local, map[string]any{"command": "cat *.go"}, "GLOBIGNORE", "?cat *.go"},
		"files that are elsewhere":         {l.inSession(), map[string]any{"command": "cat *.go"}, "", "?cat *.go"},
		"a directory that is not there":    {local, map[string]any{"command": "cat *.go", "cwd": l.ws + "/none"}, "", "?cat *.go"},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.environ != "" {
				t.Setenv(tt.environ, "x")
			}
			if got := argvs(l.call(tt.session, tt.params)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
	a := l.call(local, map[string]any{"command": "cat m* way-o*"})
	if got := l.led(a); argvs(a) != "cat main.go way-out" || len(got) != 1 || got[0] != "0.2 /outside/deep outside" {
		t.Errorf("a pattern that finds a link: %q, led to %q", argvs(a), got)
	}
	if local.Executed(a, []string{"sh", "-c", "cat *.go"}); argvs(a) != "cat main.go" {
		t.Errorf("executed: got %q", argvs(a))
	}
	elsewhere := Question(local, acp.ToolCall{RawInput: []byte(`{"command": "cat *.go", "cwd": "/tmp/*"}`)})
	if got := argvs(elsewhere); got != "?cat *.go" {
		t.Errorf("asked about another directory: got %q", got)
	}
}

func TestSame_ComparesExpandedWords(t *testing.T) {
	l := newLinked(t)
	s := l.inSession()
	s.Local = true
	raw, err := json.Marshal(map[string]string{"command": "cat *.go", "cwd": l.ws})
	if err != nil {
		t.Fatal(err)
	}
	asked := Question(s, acp.ToolCall{ID: "1", Kind: "execute", RawInput: raw})
	params := map[string]any{"command": "cat *.go", "cwd": l.ws}
	if called := l.call(s, params); !Same(asked, called) {
		t.Errorf("%s is not the same as %s", called, asked)
	}
	if err := os.WriteFile(l.real+"/more.go", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if called := l.call(s, params); Same(asked, called) {
		t.Errorf("%s is the same as %s", called, asked)
	}
}
