package policy_test

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

// greps asks about grep and tar, and denies a file that lies in a folder that they read.
const greps = `
version: 1
unattended: allow
rules:
  - {id: env, effect: deny, path: ["**/.env"], reason: no secrets}
  - {id: reads, effect: ask, command: ["grep"]}
  - {id: packs, effect: ask, command: ["tar"]}
`

// folderWithSecret makes the folder d with a file that greps denies, and one that it does not.
func folderWithSecret(t *testing.T, p *e2e.Place) {
	t.Helper()
	p.File(t, "d/.env", "T=secret\n")
	p.File(t, "d/a", "T=open\n")
}

func TestDenyRules_ApplyWithoutAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ line, want string }{
		"left out":           {"grep -rn T d", "d/a:1:T=open"},
		"cannot be left out": {"tar -cf - d", "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			folderWithSecret(t, p)
			_, out, errs := p.Cli(t, append(append([]string{"prompt"}, p.Policy(t, greps, "")...), "/run "+c.line, "--", e2e.Program("demoagent"))...)
			if all := out + errs; strings.Contains(all, "T=secret") || !strings.Contains(all, c.want) {
				t.Errorf("%s: got %s, want %q in it and not the secret", c.line, all, c.want)
			}
		})
	}
}

func TestDenyRules_ApplyToAllowedCommand(t *testing.T) {
	t.Parallel()
	for _, option := range []string{"allow_once", "allow_always"} {
		t.Run(option, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			folderWithSecret(t, p)
			s := p.Fixture(t, p.Policy(t, greps, ""))
			for n := range 2 { // with allow_always, the second is allowed by the answer that is remembered
				run := s.Agent.Send("terminal/create", e2e.Params("command", "grep -rn T d"))
				var made struct{ TerminalID string }
				if n == 0 || option == "allow_once" {
					q := s.Asked()
					s.Choose(q, option)
					run.Result(&made)
					s.Status(q, "in_progress")
					if n == 0 { // the omission of a file is reported once
						s.Expect("session/update")
					}
					s.Status(q, "completed")
				} else {
					run.Result(&made)
				}
				terminal := e2e.Params("terminalId", made.TerminalID)
				s.Agent.Request("terminal/wait_for_exit", terminal, nil)
				var output struct{ Output string }
				s.Agent.Request("terminal/output", terminal, &output)
				if strings.Contains(output.Output, "T=secret") || !strings.Contains(output.Output, "d/a:1:T=open") {
					t.Errorf("the command has printed %q, want the file that no rule denies, and not the other", output.Output)
				}
			}
			s.Finish()
		})
	}
}
