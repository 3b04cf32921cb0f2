package cli

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is one call of the program with fakes in place of what it sets in motion.
type call struct {
	commandtest.Call
	hosted bool
}

// run returns the exit status and what was printed. What is set in motion returns 9.
func (c *call) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return c.Run(t, func(call *command.Call) *cobra.Command {
		return newRoot(call, programs{
			Host: func(context.Context, host.Options) int { c.hosted = true; return 9 },
		})
	}, args...)
}

func TestRoot_BrokenPipeEndsQuietly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	defer w.Close()
	fd, err := unix.Dup(int(w.Fd())) // each file closes its own
	if err != nil {
		t.Fatal(err)
	}
	stdout := os.NewFile(uintptr(fd), "/dev/stdout")
	defer stdout.Close()
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	call := &command.Call{Stdout: stdout, Stderr: errs, Env: func(string) string { return "" }}
	build := func(call *command.Call) *cobra.Command { return newRoot(call, programs{}) }
	if status := commandtest.Execute(t.Context(), call, build, []string{"version"}); status != command.StatusUnread {
		t.Errorf("status %d, want %d", status, command.StatusUnread)
	}
	if stderr, err := os.ReadFile(errs.Name()); err != nil || len(stderr) > 0 {
		t.Errorf("got %q, %v", stderr, err)
	}
}

func TestRoot_UsageErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		env    map[string]string
		status int
		want   string
	}{
		{"no agent", []string{"run"}, nil, 2, "acphost: the agent's command is missing"},
		{"no agent after flags", []string{"run", "--observe", "--"}, nil, 2, "the agent's command is missing"},
		{"an empty agent", []string{"run", "--", ""}, nil, 2, "the agent's command is missing"},
		{"an unknown command", []string{"rum"}, nil, 2, `there is no command "rum"`},
		{"an unknown command of config", []string{"config", "chek"}, nil, 2, `there is no command "chek"`},
		{"an unknown flag", []string{"run", "--observ", "x"}, nil, 2, "unknown flag: --observ: did you mean \"--observe\"?\nSee \"acphost run --help\"."},
		{"a flag's value", []string{"run", "--fs=editor", "x"}, nil, 2, `expected handler, front or deny, got "editor"`},
		{"permission denied without a subject", []string{"run", "--permission=deny", "x"}, nil, 2, `expected handler or front, got "deny"`},
		{"a route without a target", []string{"run", "--route=fs/*", "x"}, nil, 2, `expected METHOD=TARGET, got "fs/*"`},
		{"a route that cannot be", []string{"run", "--route=initialize=deny", "x"}, nil, 2, "initialize cannot be routed"},
		{"a log level", []string{"run", "--log-level=loud", "x"}, nil, 2, `--log-level: expected debug, info, warn or error, got "loud"`},
		{"a log level in the environment", []string{"run", "x"}, map[string]string{"ACPHOST_LOG": "1"}, 2, `$ACPHOST_LOG: expected debug, info, warn or error, got "1"`},
		{"a log format", []string{"run", "--log-format=xml", "x"}, nil, 2, `--log-format: expected text or json, got "xml"`},
		{"an agent's name", []string{"run", "--agent-name=a\nb", "x"}, nil, 2, "--agent-name: expected 1 to 128 characters"},
		{"an argument too many", []string{"ps", "x"}, nil, 2, `ps takes no argument, got "x"`},
		{"two files to check", []string{"config", "check", "a", "b"}, nil, 2, "one file is checked at a time"},
		{"a configuration that is missing", []string{"run", "--config=/missing/x.yaml", "x"}, nil, 1, "acphost: configuration file: open /missing/x.yaml: no such file"},
		{"a configuration named by the environment that is missing", []string{"config", "show"}, map[string]string{"ACPHOST_CONFIG": "/missing/x.yaml"}, 1, "acphost: configuration file: open /missing/x.yaml"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{Call: commandtest.Call{Env: c.env}}
			status, stdout, stderr := call.run(t, c.args...)
			if status != c.status || !strings.Contains(stderr, c.want) || !strings.HasPrefix(stderr, "acphost: ") {
				t.Errorf("status %d, stderr %q; want %d and %q", status, stderr, c.status, c.want)
			}
			if stdout != "" || call.hosted {
				t.Errorf("output %q, hosted %v; want neither", stdout, call.hosted)
			}
		})
	}
}

func TestHelp_Text(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"acphost run -- gemini --acp", "run ", "demo ", "config ", "ps ", "version "}},
		{[]string{"--help"}, []string{"Agent Client Protocol"}},
		{[]string{"run", "--help"}, []string{"--fs TARGET", "--config FILE", "--route METHOD=TARGET", "Exit status:", "127", "ACPHOST_LOG", "login",
			"acphost run --fs=front"}},
		{[]string{"demo", "--help"}, []string{"--dir FOLDER", "no network"}},
		{[]string{"config"}, []string{"check ", "show ", "XDG_CONFIG_HOME"}},
		{[]string{"config", "check", "--help"}, []string{"FILE:LINE:COLUMN"}},
		{[]string{"config", "show", "--help"}, []string{"redacted"}},
		{[]string{"ps", "--help"}, []string{"grpcurl -plaintext -unix", "--json"}},
		{[]string{"help", "run"}, []string{"Exit status:"}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) {
			status, stdout, stderr := (&call{}).run(t, c.args...)
			if status != 0 || stderr != "" {
				t.Errorf("status %d, stderr %q; want 0 and nothing", status, stderr)
			}
			for _, want := range c.want {
				if !strings.Contains(stdout, want) {
					t.Errorf("help does not contain %q:\n%s", want, stdout)
				}
			}
			if strings.Contains(stdout, "guard") {
				t.Errorf("help shows what is hidden:\n%s", stdout)
			}
		})
	}
}

func TestHelp_ListsExitStatusOfEachCommand(t *testing.T) {
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, c := range cmd.Commands() {
			check(c)
		}
		if cmd.HasSubCommands() || cmd.Hidden {
			return
		}
		_, stdout, _ := (&call{}).run(t, append(strings.Fields(cmd.CommandPath())[1:], "--help")...)
		if n := strings.Count(stdout, "\nExit status:\n"); n != 1 || !strings.Contains(stdout, "signal") && !strings.Contains(stdout, "SIGTERM") {
			t.Errorf("%s --help has %d sections \"Exit status\", want one that states what a signal does:\n%s", cmd.CommandPath(), n, stdout)
		}
	}
	check(newRoot(&command.Call{Env: func(string) string { return "" }}, programs{}))
}

func TestVersion_PrintsVersionsAndBuild(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		status, stdout, _ := (&call{}).run(t, args...)
		for _, want := range []string{"acphost test\n", "versions 1, 2\n", "plugin protocol 1\n", "acphost.fs.v1, ", ", acphost.supervisor.v1", "built with  go"} {
			if status != 0 || !strings.Contains(stdout, want) {
				t.Errorf("%v: status %d, output %q, want %q in it", args, status, stdout, want)
			}
		}
	}
	status, stdout, _ := (&call{}).run(t, "version", "--json")
	var got map[string]any
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 {
		t.Fatalf("status %d, output %q: %v", status, stdout, err)
	}
	for name, want := range map[string]any{"version": "test", "plugin_protocol": 1.0, "acp_versions": []any{1.0, 2.0}} {
		if !reflect.DeepEqual(got[name], want) {
			t.Errorf("%s is %v, want %v", name, got[name], want)
		}
	}
}

func TestMan_WritesPageOfEachCommand(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man1")
	status, stdout, stderr := (&call{}).run(t, "man", dir)
	if status != 0 || !strings.HasSuffix(stdout, " pages in "+dir+"\n") {
		t.Fatalf("status %d, %q: %s", status, stdout, stderr)
	}
	for _, name := range []string{"acphost", "acphost-run", "acphost-policy-check", "acphost-doctor", "acphost-agents-login"} {
		if _, err := os.Stat(filepath.Join(dir, name+".1")); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "acphost-guard.1")); err == nil {
		t.Error("there is a page for what is hidden")
	}
	page, err := os.ReadFile(filepath.Join(dir, "acphost-doctor.1"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(page)
	_, body, _ := strings.Cut(text, "\n") // the first line has the version
	testkit.Golden(t, "acphost-doctor.1", body)
	if !strings.HasPrefix(text, `.TH "ACPHOST\-DOCTOR" 1 `) {
		t.Errorf("the title is %q", text[:40])
	}
	if status, _, stderr := (&call{}).run(t, "man"); status != 2 || !strings.Contains(stderr, "expected the folder") {
		t.Errorf("without a folder: %d, %s", status, stderr)
	}
}

func TestCompletion_NamesOfAgentsAndCommands(t *testing.T) {
	_, env := commandtest.AgentHome(t)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "--agent", ""}, "mine\tMy\tagent\n"},
		{[]string{"doctor", "--agent", ""}, "claude\tClaude Agent\n"},
		{[]string{"agents", "login", ""}, "gemini\tGemini CLI\n"},
		{[]string{"run", "--fs", ""}, "handler\nfront\ndeny\n"},
		{[]string{"run", "--log-level", ""}, "debug\ninfo\nwarn\nerror\n"},
	} {
		if status, stdout, _ := (&call{Call: commandtest.Call{Env: env}}).run(t, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q is completed with %q, want %q (%d)", c.args, stdout, c.want, status)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if status, stdout, _ := (&call{}).run(t, "completion", shell); status != 0 || !strings.Contains(stdout, "acphost") {
			t.Errorf("completion for %s: %d", shell, status)
		}
	}
}

func TestCerts_KeysConnectToSupervisor(t *testing.T) {
	p := &commandtest.Supervisor{PID: 11, Mode: "serve"}
	address, keys := commandtest.PlayTLS(t, p)
	as := func(client string) []string {
		return []string{"--address", address, "--tls-dir", filepath.Join(keys, client)}
	}
	run := func(client string, args ...string) (int, string) {
		status, stdout, stderr := (&call{}).run(t, append(args, as(client)...)...)
		return status, stdout + stderr
	}
	for _, c := range []struct {
		who    string
		args   []string
		status int
		want   string
	}{
		{"viewer", []string{"agents", "running"}, 0, "gemini-1"},
		{"viewer", []string{"approvals", "list"}, 0, "gemini-1/7"},
		{"viewer", []string{"terminals", "tail", "acphost-1f"}, 0, "red end"},
		{"viewer", []string{"approvals", "answer", "gemini-1/7", "yes"}, 1, "this takes the role approver"},
		{"viewer", []string{"agents", "stop", "gemini-1"}, 1, "this takes the role operator"},
		{"approver", []string{"approvals", "answer", "gemini-1/7", "yes"}, 0, "allowed"},
		{"approver", []string{"agents", "start", "gemini"}, 1, "this takes the role operator"},
		{"operator", []string{"agents", "start", "gemini"}, 0, "started"},
	} {
		if status, text := run(c.who, c.args...); status != c.status || !strings.Contains(text, c.want) {
			t.Errorf("%s, %q: status %d, %q; want %d and %q", c.who, c.args, status, text, c.status, c.want)
		}
	}
	if got := p.Answered.GetAnsweredBy(); got != "approver" {
		t.Errorf("answered by %q, want the certificate's name", got)
	}
}

func TestMeta_PromptAndChatCheckIt(t *testing.T) {
	for _, name := range []string{"prompt", "chat"} {
		args := []string{name, "--meta", "[]", "--agent", "claude"}
		if name == "prompt" {
			args = append(args, "hello")
		}
		status, _, stderr := (&call{Call: commandtest.Call{Terminal: true, Env: map[string]string{"TERM": "xterm"}}}).run(t, args...)
		if status != command.StatusUsage || !strings.Contains(stderr, "--meta: expected a JSON object") {
			t.Errorf("%q: status %d, stderr %q", args, status, stderr)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("two.json", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"prompt", "chat"} {
		if status, stdout, _ := (&call{}).run(t, "__complete", name, "--meta", "@tw"); status != 0 || !strings.HasPrefix(stdout, "@two.json\n") {
			t.Errorf("%s: %d, %q", name, status, stdout)
		}
	}
}

func TestCompletion_RunningObjects(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"agents", "stop", ""}, "gemini-1\t/opt/gemini --acp\n"},
		{[]string{"terminals", "tail", ""}, "acphost-2e\tfalse\n"},
		{[]string{"certs", "client", "x", "me:"}, "me:approver\n"},
	} {
		if status, stdout, _ := (&call{Call: commandtest.Call{Env: env}}).run(t, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q is completed with %q, want %q (%d)", c.args, stdout, c.want, status)
		}
	}
}

func TestPackages_MatchCommands(t *testing.T) {
	var commands, packages []string
	for _, cmd := range newRoot((&commandtest.Call{}).New(t), programs{}).Commands() {
		if !cmd.Hidden {
			commands = append(commands, cmd.Name())
		}
	}
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && e.Name() != "internal" && e.Name() != "testdata" {
			packages = append(packages, e.Name())
		}
	}
	slices.Sort(commands)
	if !slices.Equal(commands, packages) {
		t.Errorf("the commands are %q, the packages %q", commands, packages)
	}
}

// callers are the commands that call a running supervisor.
var callers = []string{
	"agents restart", "agents running", "agents start", "agents stop", "approvals answer", "approvals list", "chat", "dial", "files", "grants export", "grants list",
	"grants revoke", "handler list", "handler restart", "handler swap", "health", "policy reload",
	"sessions cancel", "sessions new", "sessions prompt", "sessions watch", "terminals list", "terminals tail", "top",
}

func TestSupervisorFlags_ExistOnAllCallers(t *testing.T) {
	var found []string
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
		if cmd.Flags().Lookup("pid") == nil {
			return
		}
		name := strings.TrimPrefix(cmd.CommandPath(), "acphost ")
		found = append(found, name)
		flags := []string{"socket", "config", "address", "tls-dir"}
		switch name {
		case "handler swap": // whose --address is the sidecar's
			flags[2] = "supervisor"
		case "dial": // it is for those who cannot connect to a socket; over the network they can
			flags = flags[:2]
		case "chat": // it joins sessions of this machine
			flags = flags[:2]
		}
		for _, flag := range flags {
			if cmd.Flags().Lookup(flag) == nil {
				t.Errorf("acphost %s has no --%s", name, flag)
			}
		}
	}
	walk(newRoot(&command.Call{Env: func(string) string { return "" }}, programs{}))
	slices.Sort(found)
	if !slices.Equal(found, callers) {
		t.Errorf("the commands that can name a supervisor are %q, want %q", found, callers)
	}
}
