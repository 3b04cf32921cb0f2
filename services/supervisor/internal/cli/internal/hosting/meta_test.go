package hosting

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestMeta_FromCommandLineOrFile(t *testing.T) {
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
	for flag, c := range map[string]struct{ want, wantErr string }{
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
		if got != c.want || (err == nil) != (c.wantErr == "") || err != nil && !(strings.HasPrefix(err.Error(), "--meta: ") && strings.Contains(err.Error(), c.wantErr)) {
			t.Errorf("%q: got %q and %v, want %q and %q", flag, got, err, c.want, c.wantErr)
		}
	}
}

func TestMeta_CompletesFiles(t *testing.T) {
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
}
