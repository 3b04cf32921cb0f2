package agents

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestAgentsRunning_ListsAgents(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11, Mode: "serve"})
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "running")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "agents-running.txt", stdout)
	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "running", "--json")
	testkit.Golden(t, "agents-running.json", strings.ReplaceAll(stdout, commandtest.LongAgo.UTC().Format("2006-01-02T15:04:05Z"), "START"))
	if status != 0 {
		t.Errorf("status %d", status)
	}
}

func TestAgentsStart_ChoosesServingSupervisor(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	value := func(text string) *supervisorv1.EnvValue {
		return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_Value{Value: text}}
	}
	file := func(name string) *supervisorv1.EnvValue {
		return &supervisorv1.EnvValue{Source: &supervisorv1.EnvValue_File{File: filepath.Join(here, name)}}
	}
	for _, c := range []struct {
		name   string
		args   []string
		want   *supervisorv1.StartAgentRequest
		stdout string
	}{
		{"one that is known", []string{"gemini"}, &supervisorv1.StartAgentRequest{Preset: "gemini"}, "gemini-1: started, Gemini\\u{1b} CLI 1.2, process 99\n"},
		{"with arguments", []string{"gemini", "--name", "again", "--", "--yolo", "--env", "x"}, &supervisorv1.StartAgentRequest{Preset: "gemini", Name: "again", Args: []string{"--yolo", "--env", "x"}}, "gemini-1: runs already, Gemini\\u{1b} CLI 1.2, process 99\n"},
		{"a command that is here", []string{"--cwd", "x", "--attended", "--separate", "--", "./agent", "--acp"},
			&supervisorv1.StartAgentRequest{Command: []string{here + "/agent", "--acp"}, Cwd: here + "/x", Attended: true, Separate: true}, ""},
		{"with keys", []string{"gemini", "--env", "A=b=c", "--env-file", "KEY=key"},
			&supervisorv1.StartAgentRequest{Preset: "gemini", Env: map[string]*supervisorv1.EnvValue{"A": value("b=c"), "KEY": file("key")}}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			editor, serve := &commandtest.Supervisor{PID: 11, Mode: "run"}, &commandtest.Supervisor{PID: 12, Mode: "serve"}
			status, stdout, stderr := (&commandtest.Call{Env: commandtest.Play(t, editor, serve)}).Run(t, newCommand, append([]string{"agents", "start"}, c.args...)...)
			if status != 0 || c.stdout != "" && stdout != c.stdout {
				t.Fatalf("status %d, %q, want %q: %s", status, stdout, c.stdout, stderr)
			}
			if editor.Started != nil || !proto.Equal(serve.Started, c.want) {
				t.Errorf("it received %v (and the editor's %v), want %v", serve.Started, editor.Started, c.want)
			}
		})
	}
}

func TestAgentsStart_HintsAtCommandSyntax(t *testing.T) {
	status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11, Mode: "serve"})}).Run(t, newCommand, "agents", "start", "./agent")
	want := `no agent is called "./agent"; there are gemini; if it is a command, put "--" before it: acphost agents start -- ./agent` + "\n"
	if status != 1 || !strings.HasSuffix(stderr, want) {
		t.Errorf("status %d, %q, want %q", status, stderr, want)
	}
}

func TestAgentsStart_FailurePrintsAgentOutput(t *testing.T) {
	status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11, Mode: "serve"})}).Run(t, newCommand, "agents", "start", "broken")
	want := "acphost: start broken: it ended with exit code 3\n  | no key\\u{1b}[2J\n  | bye\n"
	if status != 1 || stderr != want {
		t.Errorf("status %d, %q, want %q", status, stderr, want)
	}
}

func TestAgentsStop_CallsOwningSupervisor(t *testing.T) {
	p := &commandtest.Supervisor{PID: 11, Mode: "serve"}
	env := commandtest.Play(t, p)
	if status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "stop", "gemini"); status != 0 || stdout != "gemini-1: stopped, Gemini\\u{1b} CLI 1.2\n" {
		t.Errorf("status %d, %q: %s", status, stdout, stderr)
	}
	if !slices.Equal(p.Stopped, []string{"gemini"}) {
		t.Errorf("stopped are %q", p.Stopped)
	}
	if status, stdout, _ := (&commandtest.Call{Env: env}).Run(t, newCommand, "agents", "restart", "gemini-1"); status != 0 || !strings.HasPrefix(stdout, "gemini-1: restarted") {
		t.Errorf("status %d, %q", status, stdout)
	}
}

func TestAgentsStart_UsageErrors(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11, Mode: "serve"}, &commandtest.Supervisor{PID: 12, Mode: "serve"})
	for want, args := range map[string][]string{
		"expected an agent's name":       {"start"},
		`put "--" before arguments`:      {"start", "gemini", "x"},
		"--env: expected NAME=VALUE":     {"start", "gemini", "--env", "x"},
		"KEY is set twice":               {"start", "gemini", "--env", "KEY=x", "--env-file", "KEY=x"},
		"--pid 12":                       {"start", "gemini"},
		"expected an absolute one":       {"start", "--address", "x:1", "--tls-dir", "x", "--", "./agent"},
		"expected an agent's id":         {"stop"},
		"2 supervisors have an agent ge": {"stop", "gemini-1"},
		"no agent other is running":      {"stop", "other"},
	} {
		if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, newCommand, append([]string{"agents"}, args...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
	if status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11, Mode: "run"})}).Run(t, newCommand, "agents", "start", "gemini"); status != 1 || !strings.Contains(stderr, "acphost serve") {
		t.Errorf("with an editor's alone: status %d, %s", status, stderr)
	}
}
