package policy_test

import (
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/permd/internal/policy"
)

func TestReuse_ProgramCoversSameStart(t *testing.T) {
	start := func(args ...string) *permissionv1.Action {
		a := about("terminal.create", argv(args...))
		a.Door = permissionv1.Door_DOOR_KERNEL
		return a
	}
	parts := []policy.Part{{
		Policy: parse(t, "version: 1\nrules:\n  - {id: git, effect: allow, command: [\"git status *\"], when: \"action.mode == ''\"}\n"),
		Layer:  permissionv1.Layer_LAYER_USER,
	}}
	for want, a := range map[permissionv1.Verdict]*permissionv1.Action{allow: start("git", "status", "-s"), ask: start("git", "push")} {
		d := policy.Decide(parts, a)
		if r := policy.Reusable(parts, a, d); d.GetVerdict() != want || (r != nil) != (want == allow) || len(r.GetExcept()) > 0 {
			t.Errorf("%q, %s: got %v", a.GetCommand().GetArgv(), d.GetVerdict(), r)
		}
	}
	call := about("terminal.create", argv("git", "status", "-s"))
	if r := policy.Reusable(parts, call, policy.Decide(parts, call)); r != nil {
		t.Errorf("a call: got %v", r)
	}
}
