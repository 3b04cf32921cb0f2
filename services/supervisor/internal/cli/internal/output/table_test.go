package output

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

func TestNothingInJSONActsOnATerminal(t *testing.T) {
	out, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := PrintJSON(&command.Call{Stdout: out}, map[string]string{"text": "a && b > c \u009b2J\u202e"}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(out.Name())
	if err != nil {
		t.Fatal(err)
	}
	want := "{\n  \"text\": \"a && b > c \\u009b2J\\u202e\"\n}\n"
	if string(got) != want {
		t.Errorf("it is printed as %q, want %q", got, want)
	}
}
