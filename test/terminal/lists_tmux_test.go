package terminal_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestLists_FitTerminal(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, prompt := range []string{"one", "a prompt that is longer than any column can be where a terminal has eighty columns and no more"} {
		p.Acphost(t, 0, "prompt", "repeat "+prompt, "--", e2e.Program("demoagent"))
	}
	x := p.Terminal(t, []string{"sh", "-c", "stty cols 80; exec " + e2e.Program("acphost") + " sessions list"})
	x.Shows("left out: SIZE", "repeat a prompt that is", "…")
	now := x.All()
	if !strings.Contains(now, "STARTED (") {
		t.Errorf("there is no header:\n%s", now)
	}
	for line := range strings.SplitSeq(now, "\n") {
		if len([]rune(line)) > 80 {
			t.Errorf("a line is too long: %s", line)
		}
	}
	if strings.Contains(now, "eighty") {
		t.Errorf("a column is not cut:\n%s", now)
	}
	if got := x.Exits(); got != 0 {
		t.Errorf("the exit status is %d", got)
	}
}

func TestLists_LongListUsesPager(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	list := e2e.Program("acphost") + " agents list"
	for _, tt := range []struct {
		name, script string
		paged        bool
	}{
		{"longer", "stty rows 4; " + list, true},
		{"it fits", "stty rows 40; " + list, false},
		{"no terminal", "stty rows 4; " + list + " | cat", false},
		{"for programs", "stty rows 4; " + list + " --json", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			x := p.Terminal(t, []string{"sh", "-c", tt.script + "; echo the end"}, "ACPHOST_PAGER=nl") // which numbers the lines
			x.Shows("qwen", "the end")
			now := x.All()
			if paged := strings.Contains(now, "     1  ID") || strings.Contains(now, "     1\tID"); paged != tt.paged {
				t.Errorf("through a pager: %v, want %v:\n%s", paged, tt.paged, now)
			}
		})
	}
}
