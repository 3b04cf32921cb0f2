package link

import (
	"context"
	"errors"
	"os"
	"testing"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/internal/sandbox/decisions"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/containment"
	"github.com/acphost/acphost/services/supervisor/internal/sandbox/kernel"
)

// The sandbox asks about a mount point before the change itself: "allowed" means that it is made, and no file can be written to it.
func TestMountPoint_OnlyForForbiddenPathsInOwnFolders(t *testing.T) {
	r := newRig(t, contained(&containment.Sandbox{Mine: kernel.NewOwn([]string{"~/.own/**"}, []string{"HOME=/h"})}, containment.Proxy{}))
	verdict, fails := permissionv1.Verdict_VERDICT_DENY, error(nil)
	r.handler.decide = func(context.Context, *permissionv1.Action) (*permissionv1.DecideResponse, error) {
		return &permissionv1.DecideResponse{Verdict: verdict}, fails
	}
	r.open(`{}`)
	expect := func(what string, want bool, path string) {
		t.Helper()
		e := sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: path, Call: 7}
		got := r.decider.Judge(t.Context(), decisions.Asked{Event: e, Program: "bwrap", MountPoint: true})
		if got.Allowed != want || got.Why != "" || got.Lease != nil {
			t.Errorf("%s: got %t (%s), want %t", what, got.Allowed, got.Why, want)
		}
	}
	expect("a name that a rule denies", true, "/w/.aws")
	expect("one of git's", true, "/w/sub/.git")
	expect("for temporary files", true, "/tmp/.codex")
	expect("below what is for temporary files", false, "/tmp/somebody/.codex")
	expect("in the agent's own folder", true, "/h/.own/tmp/.aws")
	expect("elsewhere", false, "/h/.config")
	expect("a name that everybody sees", false, "/w/src")
	verdict = permissionv1.Verdict_VERDICT_ASK
	expect("a name that a rule asks about", true, "/w/.agents")
	verdict = permissionv1.Verdict_VERDICT_ALLOW
	expect("what may be written", false, "/w/.new")
	fails = errors.New("no answer")
	expect("without a policy that answers", false, "/w/.aws")
}
