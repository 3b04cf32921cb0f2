package adversary

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// profiles are what containers' profiles refuse of what the sandbox needs, and what then stands. Docker's and
// containerd's own refuse pidfd_getfd and unshare, older ones landlock and ptrace, too.
var profiles = []struct{ calls, stands, why string }{
	{"listener", "landlock", "a seccomp filter that asks"},
	{"landlock", "none", "landlock"},
	{"ptrace", "landlock", "the system call ptrace"},
	{"process_vm_readv", "landlock", "the system call process_vm_readv"},
	{"pidfd_getfd,unshare", "landlock", "the system call pidfd_getfd"},
	{"unshare", "landlock", "the system call unshare"},
}

// inContainer is the command that executes another one where a container's profile refuses calls.
func inContainer(errno, calls string) []string {
	return []string{program("attacker"), "container", errno, calls}
}

// inContainers runs a test in a container of each profile, with one errno and with the other.
func inContainers(t *testing.T, test func(t *testing.T, container []string, stands, why string)) {
	needsSandbox(t)
	t.Parallel()
	for _, p := range profiles {
		for _, errno := range []string{"EPERM", "ENOSYS"} {
			t.Run(p.calls+" "+errno, func(t *testing.T) {
				t.Parallel()
				test(t, inContainer(errno, p.calls), p.stands, p.why)
			})
		}
	}
}

// TestContainer_ReportsProtectionsWithoutSandbox: the agent has the protections that every agent has, and no part of
// the sandbox is active.
func TestContainer_ReportsProtectionsWithoutSandbox(t *testing.T) {
	inContainers(t, func(t *testing.T, container []string, stands, why string) {
		rules := kernelRules + "  - {id: hand, effect: allow, command: [" + program("attacker") + " hand]}\n"
		s := openFixtureIn(t, container, wire.NewPlace(t), policy(rules, "sandbox: {mode: enforce}"))
		s.prompt()
		got := wire.Status(t, s.sockets()[0]).GetAgent().GetSandbox()
		if got.GetMode() != "enforce" || got.GetStands() != stands || !strings.Contains(got.GetWhy(), why) {
			t.Errorf("the status has %v, want that %q stands as there is no %s", got, stands, why)
		}
		want := fmt.Sprintf("enforce, %s: ", stands)
		if out, status := s.person("audit", "query", "--json"); status != 0 || !strings.Contains(out, want) || !strings.Contains(out, why) {
			t.Errorf("the record does not say %q and %q:\n%s", want, why, out)
		}
		// The guard is the parent, and its filter and that of the container are all that there is.
		if filters := s.hand.try("status", "Seccomp_filters").of(t, "Seccomp_filters").Got; filters != "2" {
			t.Errorf("the agent is behind %s filters, want the container's and that of every agent", filters)
		}
		landlock := s.hand.try("reach", fmt.Sprint(s.PID())).of(t, "kill").Err != ""
		if landlock != (stands == "landlock") {
			t.Errorf("the agent is in a Landlock domain: %t, and %q stands", landlock, stands)
		}
		s.hand.worked("write", filepath.Join(s.Home, "outside"), "x") // nothing of it is decided
		s.hand.worked("run", "/usr/bin/id")
		command := s.command() // nor of a terminal's command
		command.worked("run", "/usr/bin/id")
		command.leave()
		s.finish()
	})
}

// TestContainer_RejectsAgentThatRequiresSandbox checks that the error has the reason.
func TestContainer_RejectsAgentThatRequiresSandbox(t *testing.T) {
	inContainers(t, func(t *testing.T, container []string, _, why string) {
		p := wire.NewPlace(t)
		ran := filepath.Join(p.Home, "ran")
		command := append(container, append(append([]string{program("acphost"), "run"}, inSandbox("enforce", kernelRules)(p)...), "--", "touch", ran)...)
		cmd := exec.Command(command[0], command[1:]...)
		cmd.Dir, cmd.Env = p.Work, p.Env()
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "sandbox.require is set") || !strings.Contains(string(out), why) {
			t.Errorf("got %v:\n%s\nwant that there is no %s", err, out, why)
		}
		if _, err := os.Stat(ran); err == nil {
			t.Error("ATTACK SUCCEEDED: the agent has run")
		}
	})
}

// TestDoctor_ReportsMissingPermissionsOfContainer checks the sandbox, the agent and the handler that runs commands.
func TestDoctor_ReportsMissingPermissionsOfContainer(t *testing.T) {
	inContainers(t, func(t *testing.T, container []string, _, why string) {
		const agent = `read -r line; echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1}}'; cat >/dev/null`
		for _, require := range []string{"false", "true"} {
			p := wire.NewPlace(t)
			flags := policy(kernelRules, "sandbox: {mode: enforce, require: "+require+"}")(p)
			command := append(container, append(append([]string{program("acphost"), "doctor"}, flags...), "--", "sh", "-c", agent)...)
			cmd := exec.Command(command[0], command[1:]...)
			cmd.Dir, cmd.Env = p.Work, p.Env()
			out, err := cmd.CombinedOutput()
			if text := strings.Join(strings.Fields(string(out)), " "); strings.Count(text, why) < 2 || (err == nil) != (require == "false") {
				t.Errorf("require: %s: got %v:\n%s\nwant twice that there is no %s", require, err, out, why)
			}
		}
	})
}
