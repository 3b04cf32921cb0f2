package policy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
)

func TestRun_WarnsWithoutRules(t *testing.T) {
	t.Parallel()
	const unruled = "acphost: no policy is set: the agent's commands run without a check. With --policy workspace, rules decide\n"
	for _, tt := range []struct {
		name  string
		flags func(t *testing.T, p *e2e.Place) []string
		said  bool
		wrote bool // the command ran
	}{
		{"nothing", func(*testing.T, *e2e.Place) []string { return nil }, true, true},
		{"as JSON", func(*testing.T, *e2e.Place) []string { return []string{"--json"} }, true, true},
		{"a ready policy", func(*testing.T, *e2e.Place) []string { return []string{"--policy", "workspace"} }, false, false},
		{"a rule file", func(t *testing.T, p *e2e.Place) []string {
			p.File(t, "rules.yaml", runsAll)
			return []string{"--policy", "rules.yaml"}
		}, false, true},
		{"another one than the configuration's", func(t *testing.T, p *e2e.Place) []string {
			return append(p.Policy(t, runsAll, ""), "--policy", "ask")
		}, false, false},
		{"the configuration's", func(t *testing.T, p *e2e.Place) []string { return p.Policy(t, runsAll, "") }, false, true},
		{"the user's", func(t *testing.T, p *e2e.Place) []string {
			p.File(t, "../.config/acphost/policy.yaml", runsAll)
			return nil
		}, false, true},
		{"the workspace's", func(t *testing.T, p *e2e.Place) []string {
			p.File(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: no, effect: deny, command: [touch]}]\n")
			return nil
		}, false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			flags := tt.flags(t, p)
			_, out, errs := p.Cli(t, e2e.DemoCommand("/run touch made", flags...)...)
			if strings.Contains(errs, unruled) != tt.said || strings.Contains(errs, "no policy") != tt.said {
				t.Errorf("standard error is %q", errs)
			}
			if strings.Contains(out, "no policy") {
				t.Errorf("it is in the output: %q", out)
			}
			if _, err := os.Stat(p.Path("made")); (err == nil) != tt.wrote {
				t.Errorf("the command ran: %v\n%s%s", err == nil, out, errs)
			}
		})
	}
}

func TestPolicyFlag_RejectsUnknownPolicy(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	own := p.Config(t, "permission: {command: [/bin/true]}")
	for name, tt := range map[string]struct {
		args []string
		want string
	}{
		"a word that is misspelt":  {e2e.DemoCommand("x", "--policy", "worskpace"), "these are ask, workspace, readonly, headless"},
		"a file that is not there": {e2e.DemoCommand("x", "--policy", "./rules.yaml"), "no such file or directory"},
		"nothing":                  {e2e.DemoCommand("x", "--policy", ""), "expected a file or the name of a ready policy"},
		"another program decides":  {e2e.DemoCommand("x", append(own, "--policy", "ask")...), "it is for acphost's own permd"},
		"run that only watches":    {[]string{"run", "--observe", "--policy", "ask", "--", "x"}, "--observe decides nothing"},
		"run without a policy":     {[]string{"run", "--permission=front", "--policy", "ask", "--", "x"}, "--permission=front is for no policy"},
		"serve":                    {[]string{"serve", "--policy", "nope"}, "there is no file"},
	} {
		status, _, errs := p.Cli(t, tt.args...)
		if status != 2 || !strings.Contains(errs, tt.want) {
			t.Errorf("%s: the status is %d, and standard error %q", name, status, errs)
		}
	}
}

func TestServe_WarnsWithoutRules(t *testing.T) {
	t.Parallel()
	const unruled = "acphost: no policy is set: the agent's commands run without a check, except in a workspace that has its own rules (.acphost/policy.yaml). With --policy workspace, you are asked first\n"
	for policy, warned := range map[string]bool{"": true, "workspace": false} {
		p := e2e.NewPlace(t)
		var flags []string
		if policy != "" {
			flags = []string{"--policy", policy}
		}
		s := p.Serve(t, flags)
		if !testkit.Poll(func() bool { return strings.Contains(s.Stderr(), "serving at") }) {
			t.Fatal("it does not serve")
		}
		if got := strings.Contains(s.Stderr(), unruled); got != warned {
			t.Errorf("standard error is %q", s.Stderr())
		}
		s.Finish()
	}
}

func TestDoctor_WarnsWithoutRules(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	_, out, _ := p.Cli(t, "doctor")
	e2e.ExpectContains(t, "doctor", out, "agents' commands run unasked", "--policy workspace")
	_, out, _ = p.Cli(t, append([]string{"doctor"}, p.Policy(t, runsAll, "")...)...)
	if strings.Contains(out, "run unasked") {
		t.Errorf("with a policy doctor prints\n%s", out)
	}
}

func TestRecord_StartErrorHasAdvice(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	nowhere := p.Config(t, "permission: {policy: workspace, audit: {file: /proc/none/audit.jsonl}}")
	status, _, errs := p.Cli(t, e2e.DemoCommand("x", nowhere...)...)
	if status == 0 {
		t.Error("it ran without a record")
	}
	e2e.ExpectContains(t, "standard error", errs, "permission.audit", "mkdir /proc/none", "name a file that can be written", "XDG_STATE_HOME", "acphost doctor")
}
