package sandbox

import (
	"os"
	"path"
	"strconv"
	"strings"
	"testing"
	"time"
)

// stuckVar has the sandbox of this test binary use a stuck decider. Its value is after how many milliseconds calls are refused.
const stuckVar = "SANDBOX_TEST_STUCK"

// stuck never returns from a decision about a file named "stuck…", and tells of each. It allows what is named "slow…" when a
// second such decision begins.
type stuck struct {
	Lists
	second chan struct{}
}

func stuckDecider(o *Options, l Lists) Decider {
	ms, _ := strconv.Atoi(os.Getenv(stuckVar))
	o.Timeout = time.Duration(ms) * time.Millisecond
	return stuck{Lists: l, second: make(chan struct{})}
}

func (s stuck) Allows(e Event) bool {
	switch name := path.Base(e.Path); {
	case strings.HasPrefix(name, "stuck"):
		select {}
	case name == "slow":
		<-s.second
	case name == "second":
		close(s.second)
	}
	return s.Lists.Allows(e)
}

func TestADecisionThatTakesTooLongRefusesTheCall(t *testing.T) {
	y := newYard(t)
	cmd := y.confined(t, "sh", "-c", "(: >stuck) 2>&1; (: >slow) 2>&1; : >second; sleep 0.1; (: >stuck) 2>/dev/null || echo again; ls; cat second && mkdir d && echo on")
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	got := run(t, cmd)
	for _, want := range []string{"create stuck: Permission denied", "create slow: Permission denied", "\nagain\nsecond\non"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %q in it: neither file, and a sandbox that goes on", got, want)
		}
	}
	y.untouched(t)
}

// Each decision that does not return keeps a thread of the sandbox. There are more of them here than threads that receive calls.
func TestADeciderThatNeverReturnsDoesNotHoldTheSandbox(t *testing.T) {
	y := newYard(t)
	const line = "i=0; while [ $i -lt 200 ]; do (: >stuck$i) & i=$((i+1)); done; wait; echo *; ls"
	cmd := y.confined(t, "sh", "-c", line)
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	cmd.Stderr = nil
	got, err := cmd.Output()
	if err == nil || string(got) != "*\n" {
		t.Errorf("got %q, %v, want no file, and a program refused that nobody can decide on", got, err)
	}
	y.untouched(t)
}

func TestToObserveTheKernelMakesACallThatNobodyDecidesOn(t *testing.T) {
	y := newYard(t)
	y.flags = []string{"--observe"}
	cmd := y.confined(t, "sh", "-c", "echo x >stuck && cat stuck")
	cmd.Env = append(cmd.Env, stuckVar+"=50")
	if got := run(t, cmd); got != "x" {
		t.Errorf("got %q", got)
	}
}
