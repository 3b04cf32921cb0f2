package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestInit_WritesConfigurationFromAnswers(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	x := p.Terminal(t, []string{e2e.Program("acphost"), "init"})
	x.Shows("Which agent do you use?", "gemini")
	x.Types("none\n")
	x.Shows("How strict are the rules?", "Everyday work in a repository")
	x.Types("workspace\n")
	x.Shows("Which commands may always run")
	x.Types("make test, echo hello\n")
	x.Shows("What is recorded of sessions?")
	x.Types("metadata\n")
	x.Shows("written: ", "policy.yaml (the ready policy workspace, and 2 commands", "acphost policy why")
	if status := x.Exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	printed := strings.Join(strings.Fields(x.All()), "")
	_, rest, _ := strings.Cut(printed, "written:")
	file, _, _ := strings.Cut(rest, "written:")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	e2e.ExpectContains(t, "config check", p.Acphost(t, 0, "config", "check"), file, "ok")
	e2e.ExpectContains(t, "policy check", p.Acphost(t, 0, "policy", "check", strings.Replace(file, "config.yaml", "policy.yaml", 1)), "ok")
	e2e.ExpectContains(t, "why", p.Acphost(t, 0, "policy", "why", "--command", "make test"), "allow", "always-allowed")
	e2e.ExpectContains(t, "why not", p.Acphost(t, 0, "policy", "why", "--command", "make install"), "ask")
	e2e.ExpectContains(t, "again", p.Acphost(t, 1, "init", "--yes"), "is there already")

	t.Run("Ctrl-C ends it", func(t *testing.T) {
		x := p.Terminal(t, []string{e2e.Program("acphost"), "init", "--force"})
		x.Shows("Which agent do you use?")
		x.Keys("C-c")
		x.Shows("interrupted; nothing was written")
		if status := x.Exits(); status != 130 {
			t.Errorf("the exit status is %d", status)
		}
	})
}
