package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/chat"
)

func TestAMetaComesFromTheCommandLineOrAFile(t *testing.T) {
	t.Chdir(t.TempDir())
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("good.json", "{\"a\": 1}\n")
	write("list.json", "[]")
	write("empty.json", "")
	write("latin.json", "{\"a\": \"\xe9\"}")
	write("large.json", `{"a": "`+strings.Repeat("a", maxMetaFile)+`"}`)
	for flag, c := range map[string]struct{ want, says string }{
		"":                  {"", ""},
		`{"a":{"b":[1.0]}}`: {`{"a":{"b":[1.0]}}`, ""},
		"@good.json":        {"{\"a\": 1}\n", ""},
		"[]":                {"", "expected a JSON object"},
		"claude":            {"", "expected a JSON object"},
		`{"a":1`:            {"", "expected a JSON object"},
		`{} {}`:             {"", "expected a JSON object"},
		" ":                 {"", "expected a JSON object"},
		"@list.json":        {"", "expected a JSON object"},
		"@empty.json":       {"", "expected a JSON object"},
		"@latin.json":       {"", "expected a JSON object"},
		"@large.json":       {"", "over 256 KiB"},
		"@none.json":        {"", "none.json"},
		"@":                 {"", "is no file"},
	} {
		got, err := readMeta(&cobra.Command{Use: "prompt"}, flag)
		if got != c.want || (err == nil) != (c.says == "") || err != nil && !(strings.HasPrefix(err.Error(), "--meta: ") && strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q: got %q and %v, want %q and %q", flag, got, err, c.want, c.says)
		}
	}
	for _, command := range []string{"prompt", "chat"} {
		args := []string{command, "--meta", "[]", "--agent", "claude"}
		if command == "prompt" {
			args = append(args, "hello")
		}
		status, _, stderr := (&call{terminal: true, env: map[string]string{"TERM": "xterm"}}).run(t, args...)
		if status != statusUsage || !strings.Contains(stderr, "--meta: expected a JSON object") {
			t.Errorf("%q: status %d, stderr %q", args, status, stderr)
		}
	}
}

func TestAPromptsSessionIsOpenedWithItsMeta(t *testing.T) {
	const meta = `{"claudeCode":{"options":{"settingSources":["user"]}}}`
	for name, c := range map[string]struct {
		can     *supervisorv1.AgentCapabilities
		session string
	}{
		"new":    {&supervisorv1.AgentCapabilities{}, ""},
		"resume": {&supervisorv1.AgentCapabilities{ResumeSession: true}, "old"},
		"load":   {&supervisorv1.AgentCapabilities{LoadSession: true}, "old"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.fake.can, r.session, r.meta = c.can, c.session, meta
			r.begin(t)
			if s := r.wait(t); s != 0 {
				t.Errorf("status %d: %s", s, r.errs.String())
			}
			if want := []string{name + " " + meta}; !slices.Equal(r.fake.metas, want) {
				t.Errorf("opened with %q, want %q", r.fake.metas, want)
			}
			if got := r.fake.prompted.GetMeta(); got != "" {
				t.Errorf("the prompt came with %s", got)
			}
		})
	}
}

func TestAChatGoesOnWithTheMetaItHad(t *testing.T) {
	for meta, want := range map[string]string{
		"@dir/options.json":   "acphost chat --meta @dir/options.json --agent demo --session s",
		`{"a": [1, "$(id)"]}`: `acphost chat --meta '{"a": [1, "$(id)"]}' --agent demo --session s`,
		`{"a": "it's"}`:       "",
		"{\"a\":\n1}":         "",
		`{"a": "ü"}`:          "",
		`{"a": "` + strings.Repeat("a", 200) + `"}`: "",
	} {
		got := reopen(&chatFlags{agent: "demo", meta: meta}, nil, chat.Result{Session: "s", Reopens: true, Used: true})
		if got != want {
			t.Errorf("%q: got %q, want %q", meta, got, want)
		}
	}
}

func TestFilesBehindAnAtAreCompleted(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, dir := range []string{"options", ".hidden"} {
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"one.json", "two.json", "options/deep.json"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string][]string{
		"":                 {"@"},
		"{":                nil,
		"@":                {"@one.json", "@options/", "@two.json"},
		"@o":               {"@one.json", "@options/"},
		"@options/":        {"@options/deep.json"},
		"@./tw":            {"@./two.json"},
		"@.h":              {"@.hidden/"},
		"@none/x":          nil,
		"@options/deeper":  nil,
		"@options/deep.js": {"@options/deep.json"},
	} {
		if got, _ := completeAtFile(nil, nil, word); !slices.Equal(got, want) {
			t.Errorf("%q is completed with %q, want %q", word, got, want)
		}
	}
	for _, command := range []string{"prompt", "chat"} {
		if status, stdout, _ := (&call{}).run(t, "__complete", command, "--meta", "@tw"); status != 0 || !strings.HasPrefix(stdout, "@two.json\n") {
			t.Errorf("%s: %d, %q", command, status, stdout)
		}
	}
}
