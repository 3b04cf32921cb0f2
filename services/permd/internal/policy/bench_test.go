package policy_test

import (
	"fmt"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

// BenchmarkDecide_50Rules decides by the number of rules of a large rule file. Two of each ten are CEL conditions.
func BenchmarkDecide_50Rules(b *testing.B) {
	p := parse(b, fiftyRules())
	for name, action := range map[string]*permissionv1.Action{
		"read":    about("fs.read", path("/ws/src/internal/server/main.go"), mode("code")),
		"command": about("terminal.create", line("git status && ls -la | head -5"), cwd("/ws"), mode("code")),
	} {
		if got := decide(p, action); got.GetVerdict() != allow {
			b.Fatalf("%s: got %v", name, got)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				decide(p, action)
			}
		})
	}
}

// BenchmarkExplain_50Rules measures the cost of each action when a record is replayed.
func BenchmarkExplain_50Rules(b *testing.B) {
	parts := []policy.Part{{Policy: parse(b, fiftyRules()), Name: "r.yaml"}}
	action := about("terminal.create", line("git status && ls -la | head -5"), cwd("/ws"), mode("code"))
	for b.Loop() {
		policy.Explain(parts, action)
	}
}

func BenchmarkParse_50Rules(b *testing.B) {
	text := fiftyRules()
	for b.Loop() {
		parse(b, text)
	}
}

func fiftyRules() string {
	var b strings.Builder
	b.WriteString("version: 1\nrules:\n")
	for i := range 5 {
		fmt.Fprintf(&b, `- {id: a%[1]d, effect: deny, path: ["**/secret%[1]d/**", "~/.app%[1]d/**", "**/*.key%[1]d"]}
- {id: b%[1]d, effect: deny, command: ["tool%[1]d -x", sudo, "rm -rf"]}
- {id: c%[1]d, effect: ask, on: [fs.write, tool.edit], path: ["${root}/.git/hooks%[1]d/**"]}
- {id: d%[1]d, effect: ask, command: ["git push%[1]d", npm publish], not_grantable: true}
- {id: e%[1]d, effect: deny, when: 'action.paths.exists(p, !p.inside_roots && p.path.startsWith("/srv%[1]d"))'}
- {id: f%[1]d, effect: ask, on: [terminal.create], when: 'has(action.command) && action.command.sub_commands.exists(s, "--prod%[1]d" in s.argv)'}
- {id: g%[1]d, effect: deny, on: [fs.write], mode: [plan%[1]d]}
- {id: h%[1]d, effect: ask, on: [tool.fetch]}
- {id: i%[1]d, effect: allow, on: ["fs.*"], path: ["${root}/src%[1]dx/**"]}
- {id: j%[1]d, effect: allow, command: ["none%[1]d", go vet]}
`, i)
	}
	b.WriteString("- {id: read, effect: allow, on: [fs.read, fs.list], path: ['${root}/**']}\n- {id: look, effect: allow, command: [git status, ls, head]}\n")
	return b.String()
}
