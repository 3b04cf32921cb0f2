package output

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/text/safetext"
)

func TestPrintJSON_EscapesControlCharacters(t *testing.T) {
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

func TestCompletions_OmitShellSyntax(t *testing.T) {
	var list []cobra.Completion
	for _, word := range []string{"claude-1/7", `"7"`, "`touch${IFS}x`", "$(id)", "a b", "a;b", "a\nb", "~root", "a*", "a\u202eb", "", "ünïcode", "a#1", "!!"} {
		list = Completions(list, word, "git push\n`id` $(id) \x1b[31m")
	}
	if len(list) != 2 || !strings.HasPrefix(list[0], "claude-1/7\tgit push") || !strings.HasPrefix(list[1], "ünïcode\t") ||
		strings.ContainsAny(strings.Join(list, ""), "`$()\x1b\n") {
		t.Errorf("the completions are %q", list)
	}
}

func TestTable_IsCutOnlyOnTerminal(t *testing.T) {
	table := NewTable("nothing", "ID", "TEXT", "WORD").Long("TEXT")
	long := strings.Repeat("n", 2*safetext.MaxLine)
	table.Add(long+"\n1", Short(long+"\x1b2", 10), Good(long+"3"))
	if got := table.Text(0, false); strings.Contains(got, "…") || !strings.Contains(got, long+" 1") || !strings.Contains(got, long+`\u{1b}2`) || !strings.Contains(got, long+"3") {
		t.Errorf("without a terminal, a table is cut:\n%s", got)
	}
	if got := table.Text(2000, false); !strings.Contains(got, strings.Repeat("n", 10)+"…  ") {
		t.Errorf("on a terminal, a table is not cut:\n%s", got)
	}
}
