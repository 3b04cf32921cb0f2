package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/users"
)

func init() {
	if os.Getenv(lookAround) != "" && os.Getenv(asProgram) != "" && len(os.Args) == 1 {
		sayWhatIsAround()
		os.Exit(0)
	}
}

// onTerminal runs acphost in a process whose standard files are a terminal, and returns what it printed, its process id
// and its exit status.
func onTerminal(t *testing.T, args ...string) (output string, pid, status int) {
	t.Helper()
	return onTerminalWith(t, "", args...)
}

// onTerminalWith is onTerminal with a configuration.
func onTerminalWith(t *testing.T, text string, args ...string) (output string, pid, status int) {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no terminals here: %v", err)
	}
	defer master.Close()
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	slave, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", args...)
	config := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(config, []byte(cmp.Or(text, "{}")), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), asProgram+"=1", "ACPHOST_CONFIG="+config)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = slave, slave, slave
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	said, err := io.ReadAll(master) // ends with EIO when the last process has closed the terminal
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	err = cmd.Wait()
	if _, ok := errors.AsType[*exec.ExitError](err); err != nil && !ok {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(said), "\r\n", "\n"), cmd.Process.Pid, cmd.ProcessState.ExitCode()
}

func TestRun_ReplacesProcessOnTerminal(t *testing.T) {
	output, pid, status := onTerminal(t, "run", "--", "sh", "-c", `echo "$$ $1"; exit 5`, "sh", "--login")
	if want := fmt.Sprintf("%d --login\n", pid); output != want || status != 5 {
		t.Errorf("output %q and status %d, want %q and 5", output, status, want)
	}
}

// lookAround makes the test binary say what it can do, of what an agent must not; its value is the name of an abstract
// socket of somebody else's.
const lookAround = "ACPHOST_TEST_LOOK_AROUND"

func sayWhatIsAround() {
	filters, err := proc.Filters(os.Getpid())
	_, dialed := net.Dial("unix", "@"+os.Getenv(lookAround))
	var caps unix.CapUserData
	_ = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_1}, &caps)
	fmt.Printf("filters: %d %v, socket: %t, capabilities: %x, user: %d\n", filters, err, dialed == nil, caps.Effective, os.Getuid())
}

func TestRun_ConfinesCommandOnTerminal(t *testing.T) {
	for _, unsupported := range []error{proc.ConfineSupported(), proc.FilterSupported()} {
		if unsupported != nil {
			t.Skip(unsupported)
		}
	}
	own, err := proc.Filters(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	name := "acphost-test-" + rand.Text()
	socket, err := net.Listen("unix", "@"+name)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	t.Setenv(lookAround, name)
	for _, c := range []struct {
		config  string
		filters int
		socket  bool
	}{
		{"", own + 1, false},
		{"agent: {no_seccomp: true}", own, false},
		{"agent: {no_landlock: true}", own + 1, true},
	} {
		output, _, _ := onTerminalWith(t, c.config, "run", "--", "/proc/self/exe")
		want := fmt.Sprintf("filters: %d <nil>, socket: %t, capabilities: 0, user: %d\n", c.filters, c.socket, os.Getuid())
		if output != want {
			t.Errorf("with %q: %q, want %q", c.config, output, want)
		}
	}
	if os.Getuid() != 0 {
		return
	}
	// Somebody else can execute the file that this process runs, which may lie in a folder that is closed to others.
	output, _, _ := onTerminalWith(t, "agent: {user: nobody}", "run", "--", "/proc/self/exe")
	nobody, err := users.Find("nobody")
	if err != nil {
		t.Skip(err)
	}
	want := fmt.Sprintf("filters: %d <nil>, socket: false, capabilities: 0, user: %d\n", own+1, nobody.UID)
	if output != want {
		t.Errorf("as another user: %q, want %q", output, want)
	}
}

func TestRun_BrokenConfigStopsLoginOfRootOnly(t *testing.T) {
	output, _, status := onTerminalWith(t, "agent: {user: [nobody]}", "run", "--", "echo", "in place")
	if root := os.Getuid() == 0; root != (status == 1) || root == strings.Contains(output, "in place") {
		t.Errorf("output %q and status %d", output, status)
	}
}

func TestRun_ReportsCommandThatCannotBeExecuted(t *testing.T) {
	folder := t.TempDir()
	for _, c := range []struct {
		command string
		status  int
		want    string
	}{
		{"acphost-test-no-such-command", 127, "acphost: acphost-test-no-such-command: command not found\n"},
		{folder + "/none", 127, "acphost: " + folder + "/none: command not found\n"},
		{folder, 126, "acphost: execute " + folder + ": "},
	} {
		output, _, status := onTerminal(t, "run", c.command)
		if status != c.status || !strings.HasPrefix(output, c.want) {
			t.Errorf("output %q and status %d, want %q and %d", output, status, c.want, c.status)
		}
	}
}

func TestRun_KeepsProcessWithoutTerminal(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "run", "echo", "in place")
	cmd.Env = append(os.Environ(), asProgram+"=1", "ACPHOST_CONFIG=/missing")
	output, err := cmd.CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 1 || !strings.Contains(string(output), "/missing") {
		t.Errorf("output %q and error %v; want the missing configuration, status 1", output, err)
	}
}

// An agent that offers two ways to log in, and is the second one's login when it gets its argument.
const agentWithLogin = `#!/bin/sh
if [ "$1" = --login ]; then echo "$$ logs in, $MODE, $KEPT"; exit 5; fi
read -r line
echo '{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"authMethods":[{"id":"key","name":"A key"},{"id":"tui","name":"On a terminal","type":"terminal","args":["--login"],"env":{"MODE":"login"}}]}}'
cat >/dev/null
`

func TestLogin_ReplacesProcessOnTerminal(t *testing.T) {
	home := t.TempDir()
	for name, text := range map[string]string{
		"bin/mine":                    agentWithLogin,
		"bin/keyed":                   strings.ReplaceAll(agentWithLogin, `"type":"terminal"`, `"type":"env_var"`),
		".config/acphost/agents.json": `{"agents": [` + entryOf("mine") + "," + entryOf("keyed") + `]}`,
	} {
		file := filepath.Join(home, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("HOME", home)
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("PATH", filepath.Join(home, "bin")+":"+os.Getenv("PATH"))
	output, pid, status := onTerminal(t, "agents", "login", "mine")
	if want := fmt.Sprintf("acphost: logging in: tui On a terminal\n%d logs in, login, kept\n", pid); output != want || status != 5 {
		t.Errorf("output %q and status %d, want %q and 5", output, status, want)
	}
	output, _, status = onTerminal(t, "agents", "login", "keyed")
	if status != 1 || !strings.Contains(output, "the agent keyed offers no login on a terminal; it offers:\n  key (agent): A key\n") || !strings.Contains(output, "tui (env_var)") {
		t.Errorf("output %q and status %d", output, status)
	}
	output, _, status = onTerminal(t, "agents", "login", "mine", "--method", "other")
	if status != 1 || !strings.Contains(output, `with the id "other"`) {
		t.Errorf("output %q and status %d", output, status)
	}
}

// entryOf is an agent whose program is on PATH.
func entryOf(id string) string {
	return `{"id": "` + id + `", "distribution": {"npx": {"package": "` + id + `", "cmd": "` + id + `", "env": {"KEPT": "kept"}}}}`
}
