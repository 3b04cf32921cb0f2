package main

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// published returns the pages and files of a release of this source, by their names below the folder of documents.
func publishedFiles(t *testing.T) map[string]file {
	t.Helper()
	abs, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	files, err := source{dir: abs, version: "v1.2.3"}.pages(t.Context(), t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]file{}
	for _, f := range files {
		all[strings.TrimPrefix(f.name, documents)] = f
	}
	return all
}

func TestArchive_HasFilesThatPagesName(t *testing.T) {
	t.Parallel()
	files := publishedFiles(t)
	for _, name := range []string{
		"deploy/compose.yaml", "deploy/kubernetes/keys.sh", "deploy/systemd/system/acphost.service", "deploy/gateway/gateway.yaml",
		"proto/acphost/supervisor/v1/agent.proto", "examples/python/policy.py", "examples/demoagent/main.go", "docs/deploy.md", "docs/demo.svg",
		"docs/decisions/README.md", "LICENSE",
	} {
		if _, ok := files[name]; !ok {
			t.Errorf("a release has no %s", name)
		}
	}
	if f := files["deploy/kubernetes/keys.sh"]; f.mode != 0o755 {
		t.Errorf("keys.sh has the mode %v, want one to execute it", f.mode)
	}
}

func TestArchive_LinksLeadToFiles(t *testing.T) {
	t.Parallel()
	files := publishedFiles(t)
	folders := map[string]bool{}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			folders[dir] = true
		}
	}
	relative := regexp.MustCompile(`\]\(([^)#:\s]+)(?:#[^)]*)?\)`)
	code := regexp.MustCompile("(?s)```.*?```|`[^`\n]*`")
	away := 0
	for name, f := range files {
		if !strings.HasSuffix(name, ".md") {
			continue
		}
		text, err := os.ReadFile(f.from)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range relative.FindAllStringSubmatch(code.ReplaceAllString(string(text), ""), -1) {
			to := path.Join(path.Dir(name), m[1])
			if _, ok := files[to]; !ok && !folders[to] {
				t.Errorf("%s links to %s, which a release does not have", name, m[1])
			}
		}
		away += strings.Count(string(text), repository+"/blob/v1.2.3/")
	}
	if away == 0 {
		t.Error("no page links to the source in the repository: links to files that are not released are lost")
	}
}

// TestPackages_HaveUnits: packages contain the systemd units and enable none, because an installation must not start a
// program.
func TestPackages_HaveUnits(t *testing.T) {
	t.Parallel()
	units := tree{platform: platform{"linux", "amd64"}}
	for name, f := range publishedFiles(t) {
		if strings.HasPrefix(name, "deploy/systemd/") {
			units.files = append(units.files, f)
		}
	}
	for _, kind := range []string{"deb", "rpm"} {
		found := map[string]bool{}
		for _, c := range units.packaged(source{}, kind) {
			found[c.Destination] = true
		}
		for _, want := range []string{
			"/usr/lib/systemd/system/acphost.service", "/usr/lib/systemd/system/acphost.socket", "/usr/lib/systemd/system/acphost-fsd.service",
			"/usr/lib/systemd/system/acphost-termd.service", "/usr/lib/systemd/system/acphost-permd.service",
			"/usr/lib/systemd/user/acphost.service", "/usr/lib/systemd/user/acphost.socket",
			"/usr/share/doc/acphost/deploy/systemd/system/config.yaml",
		} {
			if !found[want] {
				t.Errorf("the %s has no %s", kind, want)
			}
		}
		for name := range found {
			if strings.Contains(name, ".wants/") || strings.HasSuffix(name, ".preset") {
				t.Errorf("the %s enables a unit by %s", kind, name)
			}
		}
	}
}
