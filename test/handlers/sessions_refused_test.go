package handlers_test

import (
	"testing"

	"github.com/acphost/acphost/test/e2e"
)

func TestSession_FailedLoadIsNotRecorded(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	run := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := p.Cli(t, args...)
		if status != want {
			t.Fatalf("acphost %q has the status %d, want %d:\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	run(0, "prompt", "repeat one", "--", e2e.Program("demoagent"))
	before := run(0, "sessions", "list", "--json")
	if status, out, errs := p.Cli(t, "prompt", "--session", "nope", "hello", "--", e2e.Program("demoagent")); status == 0 {
		t.Fatalf("a session that is not there was prompted: %s%s", out, errs)
	}
	if after := run(0, "sessions", "list", "--json"); after != before {
		t.Errorf("the sessions are\n%s\nthey were\n%s", after, before)
	}
	run(1, "sessions", "show", "nope")
}
