package adversary

import (
	"bufio"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// TestReuse_FolderAnswerCoversNothingProtected: an answer about one file covers others in its folder without a
// question. It must not cover files that rules or acphost itself keep from the agent.
func TestReuse_FolderAnswerCoversNothingProtected(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules+"  - {id: keys, effect: deny, path: [\"**/*.pem\"]}\n"))
	s.prompt()
	h := s.hand
	secret := filepath.Join(s.Home, "secret")
	if err := os.WriteFile(secret, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"d/objects/x", "d/refs/x", "d/hooks/post-checkout", "d/.env"} {
		s.File(t, name, "kept")
	}
	if err := os.Symlink(secret, s.Path("d/link")); err != nil {
		t.Fatal(err)
	}
	for range 3 { // the answer about the first one holds for the next
		h.worked("write", s.Path("d/a"), "x")
		h.worked("write", s.Path("d/b"), "x")
		h.refused("write", s.Path("d/.env"), "x")
		h.refused("write", s.Path("d/key.pem"), "x")
		h.refused("write", s.Path("d/KEY.PEM"), "x")
		h.refused("write", s.Path("d/hooks/post-commit"), "x")
		h.refused("write", s.Path("d/link"), "x")
		h.refused("link", s.Path("d/.env"), s.Path("d/c"))
		h.refused("write", filepath.Join(s.Home, "a"), "x")
	}
	for _, file := range []string{s.Path("d/.env"), secret} {
		if got, err := os.ReadFile(file); err != nil || string(got) != "kept" {
			t.Errorf("ATTACK SUCCEEDED: %s has %q, %v", file, got, err)
		}
	}
	s.recorded(`"rule":"env"`, `"rule":"keys"`, `"rule":"acphost/git"`)
	s.finish()
}

// TestReuse_EndsWithReload: a new rule applies from its reload on, also to folders with earlier answers.
func TestReuse_EndsWithReload(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules))
	s.prompt()
	rules := filepath.Join(filepath.Dir(s.Work), "config", "policy.yaml")
	for i, rule := range []string{"", "  - {id: later, effect: deny, path: [\"**/d/**\"]}\n", ""} {
		if err := os.WriteFile(rules, []byte(kernelRules+rule), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, status := s.person("policy", "reload"); status != 0 {
			t.Fatalf("status %d: %s", status, out)
		}
		for n := range 3 {
			file := s.Path("d/" + strconv.Itoa(i) + strconv.Itoa(n))
			if rule == "" {
				s.File(t, "d/there", "")
				s.hand.worked("write", file, "x")
			} else {
				s.hand.refused("write", file, "x")
			}
		}
	}
	s.finish()
}

// TestReuse_CountsEveryChange: changes are counted also if nothing was asked about them.
func TestReuse_CountsEveryChange(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", kernelRules))
	const files = 40
	s.prompt()
	s.File(t, "counted/there", "")
	for i := range files {
		s.hand.worked("write", s.Path("counted/"+strconv.Itoa(i)), "x")
	}
	s.finish()
	out, status := s.person("audit", "query", "--json", "--door", "kernel")
	if status != 0 {
		t.Fatalf("status %d: %s", status, out)
	}
	records, count := 0, 0
	for lines := bufio.NewScanner(strings.NewReader(out)); lines.Scan(); {
		var record struct {
			Action  struct{ Paths []struct{ Path string } }
			Repeats int `json:",string"`
		}
		if err := json.Unmarshal(lines.Bytes(), &record, json.MatchCaseInsensitiveNames(true)); err != nil {
			t.Fatalf("%v: %s", err, lines.Text())
		}
		if len(record.Action.Paths) > 0 && filepath.Dir(record.Action.Paths[0].Path) == s.Path("counted") {
			records++
			count += max(1, record.Repeats)
		}
	}
	if count != files || records != 2 {
		t.Errorf("%d records count %d changes, and there were %d", records, count, files)
	}
}
