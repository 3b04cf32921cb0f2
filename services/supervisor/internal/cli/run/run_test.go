package run

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/host"
)

// call is one call of "acphost run", with fakes in place of what it sets in motion.
type call struct {
	commandtest.Call
	status int // what the host returns

	hosted   *host.Options
	executed []string
}

func (c *call) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	return c.Run(t, func(call *command.Call) *cobra.Command {
		return New(call, func(_ context.Context, o host.Options) int { c.hosted = &o; return c.status },
			func(argv, _ []string, _ *proc.User, _ proc.Confinement) (int, error) {
				c.executed = argv
				return c.status, os.ErrNotExist
			})
	}, args...)
}

func TestRun_PassesArgumentsToAgent(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"after two dashes", []string{"run", "--", "gemini", "--acp"}, []string{"gemini", "--acp"}},
		{"without them", []string{"run", "gemini", "--acp"}, []string{"gemini", "--acp"}},
		{"after flags of run", []string{"run", "--observe", "gemini", "--observe", "--config", "x"}, []string{"gemini", "--observe", "--config", "x"}},
		{"its own two dashes", []string{"run", "gemini", "--", "x"}, []string{"gemini", "--", "x"}},
		{"a command like a flag", []string{"run", "--", "--odd"}, []string{"--odd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{status: 7}
			status, stdout, stderr := call.run(t, c.args...)
			if call.hosted == nil {
				t.Fatalf("nothing was run: status %d, %s", status, stderr)
			}
			if !slices.Equal(call.hosted.Agent.GetCommand(), c.want) {
				t.Errorf("the command is %q, want %q", call.hosted.Agent.GetCommand(), c.want)
			}
			if status != 7 || stdout != "" {
				t.Errorf("status %d and output %q, want the host's 7 and nothing", status, stdout)
			}
		})
	}
}

func TestRun_PassesFlagsToHost(t *testing.T) {
	call := &call{}
	status, _, stderr := call.run(t, "run", "--observe", "--fs=front", "--terminal", "deny", "--permission=front", "--route", "_x/y=deny",
		"--route=_z/*=handler", "--agent-name", "gem", "--no-admin", "--config", commandtest.ConfigFile(t, "agent: {name: other}"), "--", "gemini")
	if status != 0 || call.hosted == nil {
		t.Fatalf("status %d: %s", status, stderr)
	}
	o := call.hosted
	want := map[string]string{"fs/*": "front", "terminal/*": "deny", "session/request_permission": "front", "_x/y": "deny", "_z/*": "handler"}
	if !maps.Equal(o.Routes, want) {
		t.Errorf("routes are %v, want %v", o.Routes, want)
	}
	if o.Mode != "observe" || o.Agent.GetName() != "gem" || o.Admin || o.Config.Proto.GetAgent().GetName() != "other" {
		t.Errorf("mode %q, agent %q, admin %v, config %v", o.Mode, o.Agent.GetName(), o.Admin, o.Config.Proto)
	}
	exe, err := filepath.EvalSymlinks(testkit.Self(t))
	if err != nil || o.Programs.Dir != filepath.Dir(exe) {
		t.Errorf("handlers are looked for in %s, want %s (%v)", o.Programs.Dir, filepath.Dir(exe), err)
	}
	if o.Logger == nil || o.Version == "" || o.Stdin == nil || o.Stdout == nil || o.Stderr == nil {
		t.Errorf("something is missing: %+v", o)
	}
}

func TestRun_AdminSocketCanBeDisabled(t *testing.T) {
	for text, want := range map[string]bool{"": true, "admin: {disabled: true}": false} {
		call := &call{}
		if status, _, stderr := call.run(t, "run", "--config", commandtest.ConfigFile(t, text), "x"); status != 0 {
			t.Fatalf("status %d: %s", status, stderr)
		}
		if call.hosted.Admin != want || call.hosted.Mode != "run" {
			t.Errorf("with %q: admin is %v, want %v; mode is %s", text, call.hosted.Admin, want, call.hosted.Mode)
		}
	}
}

func TestRun_ExecutesCommandOnTerminal(t *testing.T) {
	call := &call{Call: commandtest.Call{Terminal: true}, status: 127}
	status, _, stderr := call.run(t, "run", "--config", commandtest.ConfigFile(t, ""), "--", "gemini", "--login")
	if !slices.Equal(call.executed, []string{"gemini", "--login"}) || call.hosted != nil {
		t.Errorf("executed %q, hosted %v; want the command executed, and no host", call.executed, call.hosted)
	}
	if status != 127 || !strings.HasPrefix(stderr, "acphost: ") {
		t.Errorf("status %d, stderr %q; want 127 and why", status, stderr)
	}
}

func TestLog_FlagBeforeEnvironmentBeforeFile(t *testing.T) {
	for _, c := range []struct {
		name  string
		flags []string
		env   string
		file  string
		level slog.Level
		json  bool
	}{
		{"no flags", nil, "", "", slog.LevelWarn, false},
		{"the file", nil, "", "log: {level: info, format: json}", slog.LevelInfo, true},
		{"the environment over the file", nil, "error", "log: {level: info}", slog.LevelError, false},
		{"the flag over all", []string{"--log-level=debug", "--log-format=text"}, "error", "log: {level: info, format: json}", slog.LevelDebug, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{Call: commandtest.Call{Env: map[string]string{"ACPHOST_LOG": c.env}}}
			args := append([]string{"run", "--config", commandtest.ConfigFile(t, c.file)}, c.flags...)
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

func TestRun_FindsAgentByName(t *testing.T) {
	home, env := commandtest.AgentHome(t)
	for _, c := range []struct {
		args    []string
		command []string
		name    string
	}{
		{[]string{"--agent", "gemini-cli"}, []string{"gemini", "--acp"}, "gemini"},
		{[]string{"--agent=mine", "--", "--yes", "-c", "x"}, []string{"mine", "acp", "--yes", "-c", "x"}, "mine"},
		{[]string{"--agent=mine", "--agent-name", "other", "--observe", "--"}, []string{"mine", "acp"}, "other"},
	} {
		call := &call{Call: commandtest.Call{Env: env}}
		status, _, stderr := call.run(t, append([]string{"run"}, c.args...)...)
		if call.hosted == nil {
			t.Fatalf("%q: status %d: %s", c.args, status, stderr)
		}
		c.command[0] = filepath.Join(home, "bin", c.command[0])
		if h := call.hosted; !slices.Equal(h.Agent.GetCommand(), c.command) || h.Agent.GetName() != c.name {
			t.Errorf("%q: runs %q as %q", c.args, h.Agent.GetCommand(), h.Agent.GetName())
		}
		if mine := strings.Contains(c.command[0], "mine"); mine != (call.hosted.Agent.GetEnv()["MODE"].GetValue() == "acp") || call.hosted.Env != nil {
			t.Errorf("%q: the variables are %v, the environment is %q", c.args, call.hosted.Agent.GetEnv(), call.hosted.Env)
		}
	}
	for want, args := range map[string][]string{
		`no agent is called "gpt"; there are claude-acp,`:                       {"--agent", "gpt"},
		"the agent codex-acp is not installed; get it with: npm install -g @ag": {"--agent", "codex"},
		`put "--" before arguments`:                                             {"--agent", "gemini", "gemini", "--acp"},
	} {
		call := &call{Call: commandtest.Call{Env: env}}
		if status, _, stderr := call.run(t, append([]string{"run"}, args...)...); status == 0 || call.hosted != nil || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
}

func TestRun_ExecutesNamedAgentOnTerminal(t *testing.T) {
	home, env := commandtest.AgentHome(t)
	call := &call{Call: commandtest.Call{Env: env, Terminal: true}}
	if _, _, stderr := call.run(t, "run", "--agent", "mine", "--", "login"); !slices.Equal(call.executed, []string{filepath.Join(home, "bin/mine"), "acp", "login"}) {
		t.Errorf("executed %q: %s", call.executed, stderr)
	}
}

func TestRun_WarnsOfMissingPolicy(t *testing.T) {
	const unruled, unguided = "no policy is set: the agent's commands run without a check", "the sandbox (enforce) has no rules to decide by"
	for _, c := range []struct {
		name, config string
		flags        []string
		want, not    string // what standard error has, and has not
	}{
		{"nothing", "", nil, unruled, "sandbox"},
		{"a sandbox", "sandbox: {mode: enforce, require: true}", nil, unguided, "\n\n"},
		{"a sandbox by its flag", "", []string{"--sandbox", "enforce"}, unguided, "\n\n"},
		{"a policy", "permission: {policy: workspace}", []string{"--sandbox", "enforce"}, "", "no policy"},
		{"a policy by its flag", "", []string{"--policy", "workspace"}, "", "no policy"},
		{"no policy is wanted", "", []string{"--permission=front"}, "", "no policy"},
		{"it only watches", "", []string{"--observe"}, "", "no policy"},
		{"no policy is wanted, and a sandbox", "", []string{"--permission=front", "--sandbox", "enforce"}, unguided, "\n\n"},
		{"a log of errors alone", "", []string{"--log-level=error"}, "", "no policy"},
	} {
		t.Run(c.name, func(t *testing.T) {
			call := &call{}
			args := append([]string{"run", "--config", commandtest.ConfigFile(t, c.config)}, c.flags...)
			status, _, stderr := call.run(t, append(args, "x")...)
			if status != 0 || !strings.Contains(stderr, c.want) || strings.Contains(stderr, c.not) {
				t.Errorf("status %d, standard error %q; want %q and not %q", status, stderr, c.want, c.not)
			}
		})
	}
}
