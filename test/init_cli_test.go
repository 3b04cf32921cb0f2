package e2e_test

import (
	"os"
	"strings"
	"testing"
)

func TestANewcomerHasAConfigurationFromFourAnswers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	x := p.terminal(t, []string{program("acphost"), "init"})
	x.shows("Which agent do you use?", "gemini")
	x.types("none\n")
	x.shows("How strict are the rules?", "Everyday work in a repository")
	x.types("workspace\n")
	x.shows("Which commands may always run")
	x.types("make test, echo hello\n")
	x.shows("What is recorded of sessions?")
	x.types("metadata\n")
	x.shows("written: ", "policy.yaml (the ready policy workspace, and 2 commands", "acphost policy why")
	if status := x.exits(); status != 0 {
		t.Errorf("the exit status is %d", status)
	}
	printed := strings.Join(strings.Fields(x.all()), "")
	_, rest, _ := strings.Cut(printed, "written:")
	file, _, _ := strings.Cut(rest, "written:")
	if _, err := os.Stat(file); err != nil {
		t.Fatal(err)
	}
	expectContains(t, "config check", p.acphost(t, 0, "config", "check"), file, "ok")
	expectContains(t, "policy check", p.acphost(t, 0, "policy", "check", strings.Replace(file, "config.yaml", "policy.yaml", 1)), "ok")
	expectContains(t, "why", p.acphost(t, 0, "policy", "why", "--command", "make test"), "allow", "always-allowed")
	expectContains(t, "why not", p.acphost(t, 0, "policy", "why", "--command", "make install"), "ask")
	expectContains(t, "again", p.acphost(t, 1, "init", "--yes"), "is there already")

	t.Run("Ctrl-C ends it", func(t *testing.T) {
		x := p.terminal(t, []string{program("acphost"), "init", "--force"})
		x.shows("Which agent do you use?")
		x.keys("C-c")
		x.shows("interrupted; nothing was written")
		if status := x.exits(); status != 130 {
			t.Errorf("the exit status is %d", status)
		}
	})
}
