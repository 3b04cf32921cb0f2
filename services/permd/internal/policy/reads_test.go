package policy

import (
	"slices"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestReusable_HoldsForEveryRead(t *testing.T) {
	read := &permissionv1.RuleTest{Path: "/etc/passwd", On: "process.read"}
	for _, tt := range []struct {
		name  string
		rules string
		asked []string // nil: not for every file
	}{
		{"rules by path", `
  - {id: all, effect: allow, on: [process.read], path: ["/**"]}
  - {id: env, effect: deny, on: ["!process.write"], path: ["**/.Env", "${root}/keys/**"]}
  - {id: home, effect: ask, on: ["process.*"], path: ["~/.ssh/**"]}
  - {id: written, effect: deny, on: [process.write], path: ["**/x"]}
  - {id: run, effect: deny, command: [sudo]}`, []string{"/**/.env", "/**/keys/**", "/home/u/.ssh/**"}},
		{"no rules for processes", `
  - {id: some, effect: allow, on: [fs.read], path: ["/usr/**"]}
  - {id: every, effect: ask, on: [fs.read]}
  - {id: env, effect: deny, path: ["**/.env"]}`, []string{"/**/.env"}},
		{"some files are allowed", `
  - {id: some, effect: allow, on: [process.read], path: ["/usr/**"]}`, nil},
		{"a rule by a condition", `
  - {id: all, effect: allow, on: [process.read], path: ["/**"]}
  - {id: odd, effect: deny, on: [process.read], when: "action.agent == 'x'"}`, nil},
		{"a rule for another agent", `
  - {id: all, effect: allow, on: [process.read], path: ["/**"]}
  - {id: odd, effect: deny, on: [process.read], agent: [other], path: ["**/y"]}`, []string{}},
	} {
		all := parts(t, "version: 1\nrules:"+tt.rules+"\n")
		of := example(t, read)
		got := everyRead(all, newAction(of))
		if (got == nil) != (tt.asked == nil) || !slices.Equal(got.GetAsked(), tt.asked) && len(tt.asked) > 0 {
			t.Errorf("%s: got %v, want %q", tt.name, got, tt.asked)
		}
	}
}
