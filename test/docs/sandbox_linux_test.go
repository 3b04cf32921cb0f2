package docs_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	_ "github.com/acphost/acphost/internal/sandbox/sandboxed" // has sandbox.Supported try
	"github.com/acphost/acphost/test/e2e"
)

// commit makes the first commit of a repository.
const commit = "git -c user.name=a -c user.email=a@b.c commit -q --allow-empty -m x && "

// compatible are examples of the tables in docs/sandbox.md. Each line runs in a new repository.
var compatible = []struct {
	result string // the table
	shown  string // text of the table
	needs  string // a program, in addition to git
	line   string
}{
	{"works", "local work in the workspace", "", commit + "git switch -c y && git tag z"},
	{"works", "harmless settings", "", "git config user.name a && git config pull.rebase true"},
	{"works", "a new remote", "", "git remote add up https://example.com/x.git"},
	{"works", "editing, moving and deleting", "", "echo x > a && mv a b && rm -r b"},
	{"works", "symbolic links that lead outside", "", "ln -s /etc/hostname l && mv l k && rm k"},
	{"works", "`mktemp`", "", `f=$(mktemp) && echo x > "$f" && rm "$f"`},
	{"works", "archives, pipes", "", "echo x > a && tar c a | tar t | wc -l"},
	{"asks", "`git worktree add ../side`", "", commit + "git worktree add ../side"},
	{"asks", "writes to `/tmp`", "", "echo x > /tmp/acphost-test-of-docs"},
	{"asks", "`git config core.pager`", "", "git config core.pager ./x"},
	{"asks", "hooks", "", "echo x > .git/hooks/pre-commit"},
	{"asks", "another address for your remote", "", "git remote set-url user https://b.invalid"},
	{"asks", "`curl`", "curl", "curl -s https://acphost.invalid"},
	{"refused", "`strace PROGRAM`", "strace", "strace true"},
	{"refused", "`sudo`", "", "sudo true"},
	{"refused", "metadata addresses", "curl", "curl -s http://169.254.169.254/"},
	{"refused", "hard links to files outside", "", "ln /etc/hostname h"},
	{"refused", "`.npmrc`", "", "f=.npmr; sh -c 'echo _auth=x > $0 && read x < $0' ${f}c"},
}

// TestDocs_SandboxCompatibility runs commands under the configuration at the beginning of docs/sandbox.md, and checks
// that they have the results that its tables state.
func TestDocs_SandboxCompatibility(t *testing.T) {
	if err := sandbox.Supported(); err != nil {
		t.Skipf("there is no sandbox here: %v", err)
	}
	text, err := os.ReadFile(filepath.Join("..", "docs", "sandbox.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, tables, _ := strings.Cut(string(text), "\n## Compatibility\n")
	tables, _, _ = strings.Cut(tables, "\n## ")
	configuration := documented(t, "docs/sandbox.md", "yaml")[0]
	for _, c := range compatible {
		t.Run(strings.Trim(c.shown, "`"), func(t *testing.T) {
			t.Parallel()
			_, table, _ := strings.Cut(tables, "\n| "+c.result)
			table, _, _ = strings.Cut(table, "\n\n")
			if !strings.Contains(table, c.shown) {
				t.Errorf("docs/sandbox.md does not have %q in the table %q", c.shown, c.result)
			}
			for _, program := range strings.Fields("git " + c.needs) {
				if _, err := exec.LookPath(program); err != nil {
					t.Skip("the command needs ", program)
				}
			}
			if got, output := confined(t, configuration, c.line); got != c.result {
				t.Errorf("%s: got %q, want %q:\n%s", c.line, got, c.result, output)
			}
		})
	}
}

// confined runs a line in a terminal of the demo agent. It returns the output, and the result: "works", "asks",
// "refused" or "failed".
func confined(t *testing.T, configuration, line string) (result, output string) {
	t.Helper()
	p := e2e.NewPlace(t)
	if out, err := p.Shell(t, "", "git init -q && git remote add user https://a.invalid"); err != nil {
		t.Fatalf("make a repository: %v\n%s", err, out)
	}
	file := p.File(t, "sandbox.yaml", configuration)
	_, out, errs := p.Cli(t, "prompt", "--config", file, "/run "+line, "--", e2e.Program("demoagent"))
	status, records, problem := p.Cli(t, "audit", "query", "--json", "--outcome", "denied", "--limit", "0")
	if status != 0 {
		t.Fatalf("acphost audit query: %s", problem)
	}
	result = "failed"
	if strings.Contains(out, "run ok: exit 0") {
		result = "works"
	}
	for record := range strings.Lines(records) {
		var r struct {
			Verdict    string
			AnsweredBy string `json:"answered_by"`
		}
		if err := json.Unmarshal([]byte(record), &r); err != nil {
			t.Fatalf("%v: %s", err, record)
		}
		if r.Verdict != "ask" || r.AnsweredBy == "acphost" {
			return "refused", out + errs
		}
		result = "asks"
	}
	return result, out + errs
}
