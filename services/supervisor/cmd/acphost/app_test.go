package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/demo"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// asProgram makes the test binary be acphost, for tests that need a process.
const asProgram = "ACPHOST_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	// The guard of an agent is started without the environment.
	if os.Getenv(asProgram) != "" || len(os.Args) > 1 && os.Args[1] == "guard" {
		os.Exit(realMain())
	}
	goleak.VerifyTestMain(m)
}

// call is one call of the program with fakes in place of what it sets in motion.
type call struct {
	env      map[string]string
	terminal bool // standard input and output are a terminal
	status   int  // what host and demo return

	hosted   *host.Options
	demoed   *demo.Options
	guarded  []string
	executed []string
}

// run returns the exit status and what was printed.
func (c *call) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	file := func(name string) *os.File {
		f, err := os.Create(filepath.Join(t.TempDir(), name))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	a := &app{
		stdin: file("stdin"), stdout: file("stdout"), stderr: file("stderr"),
		env: func(name string) string { return c.env[name] },
		programs: programs{
			host:     func(_ context.Context, o host.Options) int { c.hosted = &o; return c.status },
			demo:     func(_ context.Context, o demo.Options) int { c.demoed = &o; return c.status },
			guard:    func(args []string) int { c.guarded = args; return c.status },
			exec:     func(command, _ []string) (int, error) { c.executed = command; return c.status, os.ErrNotExist },
			terminal: func(*os.File) bool { return c.terminal },
			sockets:  testSockets,
		},
	}
	status = a.run(t.Context(), args)
	read := func(f *os.File) string {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return status, read(a.stdout), read(a.stderr)
}

// testSockets leaves out the supervisors that really run here.
func testSockets(env func(string) string) []string {
	if env("XDG_RUNTIME_DIR") == "" {
		return nil
	}
	return []string{admin.Dir(env)}
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestACommandWhoseOutputNobodyReadsEndsQuietly(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	_ = r.Close()
	stdout := os.NewFile(w.Fd(), "/dev/stdout")
	defer w.Close()
	errs, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer errs.Close()
	a := &app{stdout: stdout, stderr: errs, env: func(string) string { return "" }}
	if status := a.run(t.Context(), []string{"version"}); status != statusUnread {
		t.Errorf("status %d, want %d", status, statusUnread)
	}
	if said, err := os.ReadFile(errs.Name()); err != nil || len(said) > 0 {
		t.Errorf("it says %q, %v", said, err)
	}
}

func TestWhatFollowsTheAgentsCommandIsTheAgents(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"after two dashes", []string{"run", "--", "gemini", "--acp"}, []string{"gemini", "--acp"}},
		{"without them", []string{"run", "gemini", "--acp"}, []string{"gemini", "--acp"}},
		{"after flags of run", []string{"run", "--observe", "gemini", "--observe", "--config", "x"}, []string{"gemini", "--observe", "--config", "x"}},
		{"two dashes of its own", []string{"run", "gemini", "--", "x"}, []string{"gemini", "--", "x"}},
		{"a command like a flag", []string{"run", "--", "--odd"}, []string{"--odd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{status: 7}
			status, stdout, stderr := call.run(t, c.args...)
			if call.hosted == nil {
				t.Fatalf("nothing was run: status %d, %s", status, stderr)
			}
			if !slices.Equal(call.hosted.Command, c.want) {
				t.Errorf("the command is %q, want %q", call.hosted.Command, c.want)
			}
			if status != 7 || stdout != "" {
				t.Errorf("status %d and output %q, want the host's 7 and nothing", status, stdout)
			}
		})
	}
}

func TestFlagsReachTheHost(t *testing.T) {
	call := &call{}
	status, _, stderr := call.run(t, "run", "--observe", "--fs=front", "--terminal", "deny", "--permission=front", "--route", "_x/y=deny",
		"--route=_z/*=handler", "--agent-name", "gem", "--no-admin", "--config", configFile(t, "agent: {name: other}"), "--", "gemini")
	if status != 0 || call.hosted == nil {
		t.Fatalf("status %d: %s", status, stderr)
	}
	o := call.hosted
	want := map[string]string{"fs/*": "front", "terminal/*": "deny", "session/request_permission": "front", "_x/y": "deny", "_z/*": "handler"}
	if !maps.Equal(o.Routes, want) {
		t.Errorf("routes are %v, want %v", o.Routes, want)
	}
	if o.Mode != "observe" || o.AgentName != "gem" || o.Admin || o.Config.Proto.GetAgent().GetName() != "other" {
		t.Errorf("mode %q, agent %q, admin %v, config %v", o.Mode, o.AgentName, o.Admin, o.Config.Proto)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if exe, err = filepath.EvalSymlinks(exe); err != nil || o.HandlerDir != filepath.Dir(exe) {
		t.Errorf("handlers are looked for in %s, want %s (%v)", o.HandlerDir, filepath.Dir(exe), err)
	}
	if o.Logger == nil || o.Version == "" || o.Stdin == nil || o.Stdout == nil || o.Stderr == nil {
		t.Errorf("something is missing: %+v", o)
	}
}

func TestTheAdminSocketIsServedUnlessItIsTurnedOff(t *testing.T) {
	for text, want := range map[string]bool{"": true, "admin: {disabled: true}": false} {
		call := &call{}
		if status, _, stderr := call.run(t, "run", "--config", configFile(t, text), "x"); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		if call.hosted.Admin != want || call.hosted.Mode != "run" {
			t.Errorf("with %q: admin is %v, want %v; mode is %s", text, call.hosted.Admin, want, call.hosted.Mode)
		}
	}
}

func TestOnATerminalTheCommandIsExecutedInPlace(t *testing.T) {
	call := &call{terminal: true, status: 127}
	status, _, stderr := call.run(t, "run", "--config", "/missing", "--", "gemini", "--login")
	if !slices.Equal(call.executed, []string{"gemini", "--login"}) || call.hosted != nil {
		t.Errorf("executed %q, hosted %v; want the command executed, and no host", call.executed, call.hosted)
	}
	if status != 127 || !strings.HasPrefix(stderr, "acphost: ") {
		t.Errorf("status %d, stderr %q; want 127 and why", status, stderr)
	}
}

func TestCallsThatAreWrongSayWhatIsExpected(t *testing.T) {
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
		{"an unknown flag", []string{"run", "--observ", "x"}, nil, 2, "unknown flag: --observ\nSee \"acphost run --help\"."},
		{"a flag's value", []string{"run", "--fs=editor", "x"}, nil, 2, `expected handler, front or deny, got "editor"`},
		{"permission denied to nobody", []string{"run", "--permission=deny", "x"}, nil, 2, `expected handler or front, got "deny"`},
		{"a route without a target", []string{"run", "--route=fs/*", "x"}, nil, 2, `expected METHOD=WHO, got "fs/*"`},
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
			call := &call{env: c.env}
			status, stdout, stderr := call.run(t, c.args...)
			if status != c.status || !strings.Contains(stderr, c.want) || !strings.HasPrefix(stderr, "acphost: ") {
				t.Errorf("status %d, stderr %q; want %d and %q", status, stderr, c.status, c.want)
			}
			if stdout != "" || call.hosted != nil {
				t.Errorf("output %q, hosted %v; want neither", stdout, call.hosted)
			}
		})
	}
}

func TestHelpIsADocument(t *testing.T) {
	for _, c := range []struct {
		args []string
		want []string
	}{
		{nil, []string{"acphost run -- gemini --acp", "run ", "demo ", "config ", "ps ", "version "}},
		{[]string{"--help"}, []string{"Agent Client Protocol"}},
		{[]string{"run", "--help"}, []string{"--fs who", "--config FILE", "--route METHOD=WHO", "Exit status:", "127", "ACPHOST_LOG", "login", "acphost run --fs=front"}},
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
					t.Errorf("help does not say %q:\n%s", want, stdout)
				}
			}
			if strings.Contains(stdout, "guard") {
				t.Errorf("help shows what is hidden:\n%s", stdout)
			}
		})
	}
}

func TestTheLogGoesByFlagThenEnvironmentThenFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		env   string
		file  string
		level slog.Level
		json  bool
	}{
		{"nothing said", nil, "", "", slog.LevelWarn, false},
		{"the file", nil, "", "log: {level: info, format: json}", slog.LevelInfo, true},
		{"the environment over the file", nil, "error", "log: {level: info}", slog.LevelError, false},
		{"the flag over all", []string{"--log-level=debug", "--log-format=text"}, "error", "log: {level: info, format: json}", slog.LevelDebug, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{env: map[string]string{"ACPHOST_LOG": c.env}}
			args := append([]string{"run", "--config", configFile(t, c.file)}, c.flags...)
			if status, _, stderr := call.run(t, append(args, "x")...); status != 0 {
				t.Fatalf("status %d: %s", status, stderr)
			}
			log := call.hosted.Logger
			if !log.Enabled(t.Context(), c.level) || log.Enabled(t.Context(), c.level-1) {
				t.Errorf("the level is not %v", c.level)
			}
			if _, ok := log.Handler().(*slog.JSONHandler); ok != c.json {
				t.Errorf("the format is JSON: %v, want %v", ok, c.json)
			}
		})
	}
}

func TestConfigCheckPrintsEveryProblemWithItsPlace(t *testing.T) {
	file := configFile(t, "log:\n  level: loud\nagent:\n  stop_grace_ms: 600001\n")
	status, stdout, stderr := (&call{}).run(t, "config", "check", file)
	want := file + `:2:10: log.level: expected "debug", "info", "warn" or "error", got "loud"` + "\n" +
		file + ":4:18: agent.stop_grace_ms: expected 1 to 600000, or 0 for the default, got 600001\n"
	if status != 1 || stdout != want || stderr != "" {
		t.Errorf("status %d, stderr %q, output\n%swant 1 and\n%s", status, stderr, stdout, want)
	}
	file = configFile(t, "permission: {policy: missing.yaml}\n")
	if status, stdout, _ := (&call{}).run(t, "config", "check", "--config", file); status != 1 || !strings.Contains(stdout, file+":1:22: permission.policy: stat ") {
		t.Errorf("a missing rule file: status %d, output %q", status, stdout)
	}
}

func TestConfigCheckSaysOk(t *testing.T) {
	file := configFile(t, "log: {level: info}\n")
	if err := os.Chmod(file, 0o660); err != nil {
		t.Fatal(err)
	}
	status, stdout, _ := (&call{env: map[string]string{"ACPHOST_CONFIG": file}}).run(t, "config", "check")
	if status != 0 || !strings.HasSuffix(stdout, file+": ok\n") || !strings.HasPrefix(stdout, "warning: ") {
		t.Errorf("status %d, output %q; want 0, a warning, and ok", status, stdout)
	}
	status, stdout, _ = (&call{}).run(t, "config", "check")
	if status != 0 || stdout != "no configuration file, the defaults count: ok\n" {
		t.Errorf("without a file: status %d, output %q", status, stdout)
	}
}

func TestConfigShowPrintsWhatIsInEffectWithoutSecrets(t *testing.T) {
	file := configFile(t, "handlers: {mine: {command: [/bin/mine], env: {API_TOKEN: hush}}}\n")
	status, stdout, stderr := (&call{}).run(t, "config", "show", "--config", file)
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	for _, want := range []string{"# " + file + "\n", "max_message_bytes: 104857600", "- fsd", "(redacted)"} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not shown:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "hush") {
		t.Errorf("a secret is shown:\n%s", stdout)
	}
}

func TestPsListsSupervisors(t *testing.T) {
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	env := map[string]string{"XDG_RUNTIME_DIR": dir, "TMPDIR": dir}
	lookup := func(name string) string { return env[name] }
	server, err := admin.Start(admin.Options{State: shown{}, Env: lookup})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()

	status, stdout, stderr := (&call{env: env}).run(t, "ps")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	row := slices.IndexFunc(strings.Split(stdout, "\n"), func(line string) bool { return strings.HasSuffix(line, server.Path()) })
	if row < 1 || !strings.HasPrefix(stdout, "PID") {
		t.Fatalf("no header, or no row for %s:\n%s", server.Path(), stdout)
	}
	line := strings.Split(stdout, "\n")[row]
	if got := strings.Fields(line); got[0] != "4711" || got[1] != "gem?ini" || got[2] != "running" {
		t.Errorf("the row is %q", line)
	}

	status, stdout, stderr = (&call{env: env}).run(t, "ps", "--json")
	if status != 0 {
		t.Fatalf("status %d: %s", status, stderr)
	}
	var list []map[string]any
	dec := json.NewDecoder(bytes.NewReader([]byte(stdout)))
	if err := dec.Decode(&list); err != nil {
		t.Fatalf("%v:\n%s", err, stdout)
	}
	if _, err := dec.Token(); err != io.EOF {
		t.Errorf("there is more than one value:\n%s", stdout)
	}
	if i := slices.IndexFunc(list, func(s map[string]any) bool { return s["socket"] == server.Path() }); i < 0 || list[i]["pid"] != 4711.0 || list[i]["mode"] != "observe" {
		t.Errorf("the list is %v", list)
	}
}

func TestGuardGetsItsArgumentsUnparsed(t *testing.T) {
	call := &call{status: 9}
	status, _, _ := call.run(t, "guard", "--help", "--", "-x")
	if status != 9 || !slices.Equal(call.guarded, []string{"--help", "--", "-x"}) {
		t.Errorf("status %d, arguments %q", status, call.guarded)
	}
}

func TestDemoIsToldWhereItIsAndWhetherToUseColours(t *testing.T) {
	for _, c := range []struct {
		name  string
		args  []string
		call  call
		color bool
	}{
		{"on a terminal", nil, call{terminal: true}, true},
		{"into a file", nil, call{}, false},
		{"not wanted", []string{"--no-color"}, call{terminal: true}, false},
		{"not wanted anywhere", nil, call{terminal: true, env: map[string]string{"NO_COLOR": "1"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.call.status = 3
			status, _, stderr := c.call.run(t, append([]string{"demo", "--dir", "/d"}, c.args...)...)
			if status != 3 || c.call.demoed == nil {
				t.Fatalf("status %d: %s", status, stderr)
			}
			if o := c.call.demoed; o.Dir != "/d" || o.Color != c.color || !filepath.IsAbs(o.Exe) || o.Stdout == nil {
				t.Errorf("options are %+v", o)
			}
		})
	}
}

func TestVersionSaysWhatItIs(t *testing.T) {
	for _, args := range [][]string{{"version"}, {"--version"}} {
		status, stdout, _ := (&call{}).run(t, args...)
		if status != 0 || !strings.HasPrefix(stdout, "acphost ") || strings.Count(stdout, "\n") != 1 {
			t.Errorf("%v: status %d, output %q", args, status, stdout)
		}
	}
}
