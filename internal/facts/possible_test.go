package facts

import (
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestOf_MarksPossibleFiles(t *testing.T) {
	sub := &permissionv1.SubCommand{Argv: []string{"grep", "x", "a", "b", "a"}, PossibleWords: []uint32{3, 4}}
	f := Of(sub, "/w/d", &Disk{Roots: []string{"/w"}})
	if !f.GetKnown() || len(f.GetFiles()) != 2 || f.GetFiles()[0].GetPossible() || !f.GetFiles()[1].GetPossible() {
		t.Errorf("got %v, want a as certain and b as possible", f)
	}
}
