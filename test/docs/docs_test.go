package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// documented returns the blocks of a language in a page.
func documented(t *testing.T, page, language string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", page))
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?ms)^```"+language+"\n(.*?)^```$").FindAllSubmatch(text, -1) {
		blocks = append(blocks, string(m[1]))
	}
	return blocks
}

// pages are the README and all pages of documentation.
func pages(t *testing.T) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join("..", "docs", "*.md"))
	if err != nil || len(found) == 0 {
		t.Fatalf("the pages: %q, %v", found, err)
	}
	all := []string{"README.md"}
	for _, page := range found {
		all = append(all, strings.TrimPrefix(filepath.ToSlash(page), "../"))
	}
	return all
}

// TestDocs_ExamplesMatchOutput loads every configuration and rule file in the documentation, and checks the decisions
// that the text describes.
func TestDocs_ExamplesMatchOutput(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	dir := filepath.Join(p.Home, ".config", "acphost")
	for _, folder := range []string{dir, filepath.Join(dir, "fs"), filepath.Join(dir, "term"), filepath.Join(dir, "tls")} {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"my-fsd", "my-permd", "corp-permd", "acme-handler", "fs/ca.crt", "fs/client.crt", "term/ca.crt", "term/client.crt", "anthropic.key", "corp-policy", "policy.yaml", "tls/ca.crt", "tls/server.crt", "collector-ca.crt", "collector.token"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("version: 1\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"policy.secret", "my-permd.secret", "fs/client.key", "term/client.key", "tls/server.key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat("0", 64)+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, page := range pages(t) {
		for _, block := range documented(t, page, "yaml") {
			if strings.Contains(block, "version: 1") { // a rule file
				s := p.Fixture(t, p.Config(t, "permission: {policy: "+p.File(t, "policy.yaml", block)+"}\n"))
				s.Finish()
				continue
			}
			block = strings.ReplaceAll(block, "user: coder", "user: nobody") // whom every system has
			file := filepath.Join(dir, "shown.yaml")
			if err := os.WriteFile(file, []byte(block), 0o600); err != nil {
				t.Fatal(err)
			}
			if page == "docs/plugins.md" { // the handler that the page describes
				if err := os.WriteFile(filepath.Join(dir, "echo"), nil, 0o700); err != nil {
					t.Fatal(err)
				}
			}
			if status, out, errs := p.Cli(t, "config", "check", "--config", file); status != 0 {
				t.Errorf("%s shows\n%s\nand acphost config check prints\n%s%s", page, block, out, errs)
			}
		}
	}
}

// TestDocs_RecipesWork runs the recipes that inspect a supervisor.
func TestDocs_RecipesWork(t *testing.T) {
	t.Parallel()
	grpcurl := filepath.Join("..", ".tools", "bin", "grpcurl")
	if _, err := os.Stat(grpcurl); err != nil {
		t.Skipf("grpcurl is not installed (make test installs it): %v", err)
	}
	tools, err := filepath.Abs(filepath.Dir(grpcurl))
	if err != nil {
		t.Fatal(err)
	}
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	_, listed, _ := p.Cli(t, "ps", "--json")
	socket := regexp.MustCompile(`"socket": *"([^"]+)"`).FindStringSubmatch(listed)
	control := regexp.MustCompile(`"control": *"([^"]+)"`).FindStringSubmatch(listed)
	if socket == nil || control == nil {
		t.Fatalf("acphost ps --json printed %s", listed)
	}
	ran := 0
	for _, page := range pages(t) {
		for _, block := range documented(t, page, "sh") {
			if isScript(block) {
				continue
			}
			for line := range strings.Lines(block) {
				if !strings.HasPrefix(line, "grpcurl ") || page == "docs/plugins.md" { // there it calls sidecars, not a supervisor
					continue
				}
				ran++
				if out, err := p.Shell(t, tools, strings.TrimSpace(line), "S="+socket[1], "C="+control[1]); err != nil {
					t.Errorf("%s: %s: %v\n%s", page, line, err, out)
				}
			}
		}
	}
	if ran == 0 {
		t.Error("no recipe was found")
	}
	s.Finish()
}

// isScript reports whether a block is run whole.
func isScript(block string) bool {
	return strings.Contains(block, "call()") || strings.Contains(block, "acphost prompt") || strings.Contains(block, "acphost certs init")
}

// TestDocs_ScriptsWork runs the recipes that drive agents without an editor, one after another.
func TestDocs_ScriptsWork(t *testing.T) {
	t.Parallel()
	tools, err := filepath.Abs(filepath.Join("..", ".tools", "bin"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(tools, "grpcurl")); err != nil {
		t.Skipf("grpcurl is not installed (make test installs it): %v", err)
	}
	if _, err := exec.LookPath("jq"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("the documented recipes need jq: %v", err)
		}
		t.Skipf("the documented recipes need jq, which is not installed: %v", err)
	}
	p := e2e.NewPlace(t)
	programs := filepath.Dir(e2e.Program("acphost"))
	if err := os.WriteFile(filepath.Join(p.Work, "notes.md"), []byte("We will recieve the parts on Monday.\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := p.Serve(t, nil, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	sockets, err := filepath.Glob(filepath.Join(p.Home, "run", "acphost", "*.sock"))
	if err != nil || len(sockets) != 1 {
		t.Fatalf("%q, %v: want one socket", sockets, err)
	}
	path, control := tools+string(os.PathListSeparator)+programs, wire.Control(t, sockets[0])
	ran := 0
	var scripts []string
	for _, page := range []string{"docs/programs.md", "docs/command-line.md"} { // those of others need agents that are not here
		scripts = append(scripts, documented(t, page, "sh")...)
	}
	for _, block := range scripts {
		if !isScript(block) {
			continue
		}
		ran++
		if out, err := p.Shell(t, path, "set -e\n"+block, "C="+control); err != nil {
			t.Errorf("%s\n%v\n%s", block, err, out)
		}
	}
	if ran < 3 {
		t.Errorf("%d scripts were found, want three", ran)
	}
	s.Finish()
}
