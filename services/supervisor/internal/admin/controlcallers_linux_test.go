package admin_test

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/sdk/launch"
)

// command is this test binary in a role.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), testkit.Self(t), args...)
	cmd.Env = os.Environ()
	cmd.Stderr = os.Stderr
	return cmd
}

// output returns the output of a process of that role.
func output(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%q: %v", cmd.Args, err)
	}
	return strings.TrimSpace(string(out))
}

// serve has another process serve a socket, and returns its path.
func serve(t *testing.T) (socket string) {
	t.Helper()
	socket = filepath.Join(testkit.ShortDir(t), "admin.sock")
	cmd := exec.Command(testkit.Self(t), "supervisor", socket, "") // not one that the end of the test's context kills
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = in.Close()
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the supervisor: %v", err)
		}
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
		t.Fatalf("the supervisor printed %q, %v", line, err)
	}
	return socket
}

func TestControlSocket_AllowsPeoplesProcesses(t *testing.T) {
	socket := serve(t)
	if got := try(socket); got != allowed {
		t.Errorf("the supervisor's parent: %s", got)
	}
	if got := output(t, command(t, "call", socket)); got != allowed {
		t.Errorf("its sibling: %s", got)
	}
	if got := output(t, exec.Command("setsid", "-w", testkit.Self(t), "call", socket)); got != allowed {
		t.Errorf("one in a session of its own: %s", got)
	}
}

func TestControlSocket_RefusesHiddenAgent(t *testing.T) {
	other := serve(t) // another supervisor's
	for _, c := range []struct{ name, script string }{
		{"by default", "SELF call SOCKET"},
		{"without its environment", "env -i GORACE=atexit_sleep_ms=0 SELF call SOCKET"},
		{"in its own session", "setsid -w SELF call SOCKET"},
		// A double fork: both parents have exited, and the guard has adopted the caller.
		{"as an orphan", `setsid sh -c 'P=$$
			(while kill -0 $P 2>/dev/null; do :; done; env -i GORACE=atexit_sleep_ms=0 SELF call SOCKET >OUT.new; mv OUT.new OUT) &
			exit 0'
			while [ ! -e OUT ]; do sleep 0.01; done
			cat OUT`},
	} {
		t.Run(c.name, func(t *testing.T) {
			for whose, socket := range map[string]string{"its own supervisor's": "", "another supervisor's": other} {
				own := filepath.Join(testkit.ShortDir(t), "admin.sock")
				if socket == "" {
					socket = own
				}
				script := strings.NewReplacer("SELF", testkit.Self(t), "SOCKET", socket, "OUT", own+".out").Replace(c.script)
				if got := output(t, command(t, "supervisor", own, script)); got != refused {
					t.Errorf("on %s socket: %s", whose, got)
				}
			}
		})
	}
}

func TestDecisions_AreNotShownToAgents(t *testing.T) {
	other := serve(t)
	if got := output(t, command(t, "decisions", other)); got != "OK" {
		t.Errorf("a person's: %s", got)
	}
	own := filepath.Join(testkit.ShortDir(t), "admin.sock")
	for _, script := range []string{"SELF decisions SOCKET", "setsid -w env -i GORACE=atexit_sleep_ms=0 SELF decisions SOCKET"} {
		for _, socket := range []string{own, other} {
			words := strings.NewReplacer("SELF", testkit.Self(t), "SOCKET", socket).Replace(script)
			if got := output(t, command(t, "supervisor", own, words)); got != "PermissionDenied" {
				t.Errorf("an agent's, by %q: %s", words, got)
			}
		}
	}
}

func TestControlSocket_RefusesAgentInPIDNamespace(t *testing.T) {
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no pid namespaces here: %v", err)
	}
	own := filepath.Join(testkit.ShortDir(t), "admin.sock")
	// A user namespace provides the capabilities for the other operations.
	script := "exec unshare -Upf --mount-proc " + testkit.Self(t) + " call " + own
	if got := output(t, command(t, "supervisor", own, script)); got != refused {
		t.Error(got)
	}
}

func TestControlSocket_UnseenCallerOutsidePIDNamespace(t *testing.T) {
	if err := exec.Command("unshare", "-pf", "--mount-proc", "true").Run(); err != nil {
		t.Skipf("no pid namespaces here: %v", err)
	}
	socket := filepath.Join(testkit.ShortDir(t), "admin.sock")
	cmd := exec.CommandContext(t.Context(), "unshare", "-pf", "--mount-proc", testkit.Self(t), "supervisor", socket, "")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "serving\n" {
		t.Fatalf("the supervisor printed %q, %v", line, err)
	}
	if got := try(socket); got != refused {
		t.Error(got)
	}
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

func TestControlSocket_RefusesAgentOfOtherSupervisor(t *testing.T) {
	socket := serve(t)
	acphost := filepath.Join(t.TempDir(), "acphost")
	if err := os.Symlink(testkit.Self(t), acphost); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"run", "demo", "serve", "prompt", "chat"} {
		// This binary plays a shell whatever acphost's command is.
		if got := output(t, exec.CommandContext(t.Context(), acphost, name, testkit.Self(t)+" call "+socket)); got != refused {
			t.Errorf("below acphost %s: %s", name, got)
		}
	}
	if got := output(t, exec.CommandContext(t.Context(), acphost, "shell", testkit.Self(t)+" call "+socket)); got != allowed {
		t.Errorf("below another command: %s", got)
	}
}

func TestControlSocket_RefusesHandlers(t *testing.T) {
	socket := serve(t)
	child := command(t, "shell", testkit.Self(t)+" call "+socket)
	child.Env = append(child.Env, launch.CookieKey+"="+launch.CookieValue)
	if got := output(t, child); got != refused {
		t.Errorf("a command of a handler: %s", got)
	}
	// A sidecar: started by a person, by acphost's own name, with no mark in its environment.
	termd := filepath.Join(t.TempDir(), "termd")
	if err := os.Symlink(testkit.Self(t), termd); err != nil {
		t.Fatal(err)
	}
	sidecar := exec.CommandContext(t.Context(), termd, "shell", testkit.Self(t)+" call "+socket)
	if got := output(t, sidecar); got != refused {
		t.Errorf("a command of a sidecar: %s", got)
	}
	marked := command(t, "call", socket)
	marked.Env = append(marked.Env, "ACPHOST_TERM_0123456789abcdef=1")
	if got := output(t, marked); got != refused {
		t.Errorf("a stray of a terminal: %s", got)
	}
}

func TestControlSocket_RefusesEndedCaller(t *testing.T) {
	if got := output(t, command(t, "leave", serve(t))); got != refused {
		t.Error(got)
	}
}

// An agent cannot use a connection that a person's process made and passed on, even while that process lives.
func TestControlSocket_RefusesInheritedConnection(t *testing.T) {
	control := controlOf(t, serve(t)).GetControlSocket()
	if got := tryOn(at(t, "unix:"+control)); got != allowed {
		t.Errorf("a process that connected: %s", got)
	}
	if got := output(t, command(t, "hand", control)); got != refused {
		t.Errorf("its child: %s", got)
	}
}

func TestPeer_DetectsDescendantOfGuard(t *testing.T) {
	if from, err := peer.FromAgent(os.Getpid()); from || err != nil {
		t.Errorf("the test itself: %v, %v", from, err)
	}
	if got := output(t, command(t, "descends")); got != "false <nil>" {
		t.Errorf("a child of the test: %s", got)
	}
	own := filepath.Join(testkit.ShortDir(t), "admin.sock")
	if got := output(t, command(t, "supervisor", own, "setsid -w env -i GORACE=atexit_sleep_ms=0 "+testkit.Self(t)+" descends")); got != "true <nil>" {
		t.Errorf("below a guard: %s", got)
	}
	if _, err := peer.FromAgent(1 << 30); err == nil {
		t.Error("a process that is not there: no error")
	}
}
