package adversary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/adversary/orders"
)

// tracerRules are kernelRules with programs that trace, and that are traced.
func tracerRules() string {
	return kernelRules + `  - {id: trace, effect: allow, command: ["sh ./traced", "` + program("attacker") + ` victim"]}` + "\n"
}

// needsProgram skips a test of a program that is not installed.
func needsProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("%s is not installed", name)
	}
}

// atOne is a script that traces a process of its own, once it runs, and ends it.
const atOne = `sleep 1000 & s=$!
until [ "$(readlink /proc/$s/exe)" = "$(readlink -f $(command -v sleep))" ]; do :; done
`

// TestTracer_ReadsButCannotControl: processes in the sandbox may trace and read each other. A traced process cannot
// start programs, because the sandbox has to trace it for that and a process has one tracer. The call is rejected at
// once with a reason, which the user sees, too.
func TestTracer_ReadsButCannotControl(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	for name, c := range map[string]struct {
		script string
		want   []string
	}{
		"strace -f": {"strace -f /bin/true; echo status $?", []string{"Operation not permitted", "status 1"}},
		"strace -p": {atOne + `strace -p $s 2>trace & t=$!
until grep -q 'TracerPid:.[1-9]' /proc/$s/status; do :; done
kill $s; wait $t; cat trace`, []string{"attached", "+++ killed by SIGTERM +++"}},
		"gdb -p": {atOne + `gdb -nx -batch -p $s -ex 'info registers' -ex 'x/2xb $sp' -ex 'set {char}$sp=1' -ex 'echo next\n' -ex detach 2>&1
gdb -nx -batch -p $s -ex 'set $pc=0' 2>&1
kill $s; wait $s; echo status $?`, []string{"sp ", "Cannot access memory", "Operation not permitted", "status 143"}},
		"gdb": {"gdb -nx -batch -ex run /bin/true 2>&1; echo after", []string{"Operation not permitted", "after"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			needsProgram(t, strings.Fields(name)[0])
			s := openFixture(t, inSandbox("enforce", tracerRules()))
			s.prompt()
			own := s.own()
			s.File(t, "traced", c.script)
			got := s.hand.try("run", "/bin/sh", "./traced")
			for _, want := range c.want {
				if !strings.Contains(got[0].Got, want) {
					t.Errorf("got\n%s\nwant %q in it", got[0].Got, want)
				}
			}
			if !strings.Contains(name, "-p") {
				s.recorded(`"rule":"acphost/sandbox"`, "another one traces")
			}
			s.hand.worked("write", s.Path("after"), "x")
			s.expectAlive(own)
			s.finish()
		})
	}
}

// TestTracer_CannotChangeCallUnderDecision: while the policy decides, a tracer and a process that shares memory with
// the caller replace the arguments of the call.
func TestTracer_CannotChangeCallUnderDecision(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	for _, c := range []struct{ call, how, ended, said string }{
		{"open", "memory", "ended", "errno 0"},
		{"open", "trace", "ended", "errno 0"},
		{"exec", "memory", "killed", ""},
		{"exec", "trace", "ended", "errno 1"}, // nothing starts that another process traces
	} {
		t.Run(c.call+" "+c.how, func(t *testing.T) {
			t.Parallel()
			// The attacker finds the held call in /proc, which is not readable if reads are decided.
			s := openFixture(t, inSandbox("enforce, reads: false", tracerRules()))
			s.prompt()
			s.File(t, ".env", "SECRET=1")
			permd := s.own()["permd"]
			path, argument, other, otherArgument := s.Path("allowed"), "", s.Path(".env"), ""
			if c.call == "exec" {
				path, argument, other, otherArgument = "/bin/echo", "decided", "/usr/bin/id", "-u"
			}
			var got orders.Try
			if !testkit.Poll(func() bool {
				s.hand.worked("victim", c.call, path, argument)
				testkit.Freeze(t, permd)
				for _, a := range s.hand.try("rewrite", other, otherArgument, c.how) {
					if a.Err == "" && !strings.HasPrefix(a.What, "other ") && !strings.HasPrefix(a.What, "(") {
						t.Errorf("ATTACK SUCCEEDED: %s", a)
					}
					if a.What == "(seize)" && a.Err != "" {
						t.Errorf("the victim could not be traced, which this is about: %s", a)
					}
				}
				if err := syscall.Kill(permd, syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
				got = s.hand.try("outcome")[0]
				// Nothing outside tells when a held call's arguments have been read. Who writes before is decided on for
				// what is written, which is refused, and says nothing about who writes later.
				return !strings.HasSuffix(strings.TrimSpace(got.Got), "errno 13")
			}) {
				t.Fatal("the other arguments were there each time before the question was asked")
			}
			if got.What != c.ended || strings.TrimSpace(got.Got) != c.said {
				t.Errorf("ATTACK SUCCEEDED: the victim %s and said %q, want %q and %q", got.What, got.Got, c.ended, c.said)
			}
			if text, err := os.ReadFile(s.Path(".env")); err != nil || string(text) != "SECRET=1" {
				t.Errorf("ATTACK SUCCEEDED: .env has %q, %v", text, err)
			}
			if text, err := os.ReadFile(path); c.call == "open" && (err != nil || string(text) != "written") {
				t.Errorf("the file that was decided on has %q, %v", text, err)
			}
			s.finish()
		})
	}
}

func TestTracer_CannotTraceSandboxOrSupervisor(t *testing.T) {
	needsSandbox(t)
	t.Parallel()
	s := openFixture(t, inSandbox("enforce", tracerRules()))
	s.prompt()
	own := s.own()
	own["the sandbox"] = parent(s.hand.pid)
	for name, pid := range own {
		for _, a := range s.hand.try("reach", fmt.Sprint(pid)) {
			if a.Err == "" && (a.What != "list fd" || rootLimit.refuses()) {
				t.Errorf("ATTACK SUCCEEDED: the agent, of %s: %s", name, a)
			}
		}
	}
	delete(own, "the sandbox")
	s.expectAlive(own)
	s.hand.worked("write", filepath.Join(s.Work, "after"), "x")
	s.finish()
}
