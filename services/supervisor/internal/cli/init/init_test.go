package init

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rules plays permd: it knows two ready policies, and warns of rules that it cannot match.
type rules struct {
	permissionv1.PolicyServiceClient
}

func (rules) ListReadyPolicies(context.Context, *permissionv1.ListReadyPoliciesRequest, ...grpc.CallOption) (*permissionv1.ListReadyPoliciesResponse, error) {
	return &permissionv1.ListReadyPoliciesResponse{Policies: []*permissionv1.ReadyPolicy{
		{Name: "readonly", Description: "Looking and nothing else. All else is denied.", Content: []byte("version: 1\nrules:\n")},
		{Name: "workspace", Description: "Everyday work\nin a repository. All else is asked.", Content: []byte("version: 1\nrules:\n")},
	}}, nil
}

func (rules) Check(_ context.Context, req *permissionv1.CheckRequest, _ ...grpc.CallOption) (*permissionv1.CheckResponse, error) {
	answer := &permissionv1.CheckResponse{}
	for command, message := range map[string]string{"f (": "it never matches", "git push": "`git push` has no effect here"} {
		if strings.Contains(string(req.GetFile().GetContent()), strconv.Quote(command)) {
			answer.Findings = append(answer.Findings, &permissionv1.Finding{Severity: permissionv1.Severity_SEVERITY_WARNING, Message: message})
		}
	}
	return answer, nil
}

// initialised calls the command in a new home, and returns that home.
func initialised(t *testing.T, c *commandtest.Call, status int, args ...string) (home, printed string) {
	t.Helper()
	if c.Env == nil {
		c.Env = map[string]string{"HOME": t.TempDir()}
	}
	t.Chdir(t.TempDir())
	got, out, errs := c.Run(t, func(call *command.Call) *cobra.Command {
		return New(call, func(context.Context, *slog.Logger) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
			return rules{}, func(context.Context) error { return nil }, nil
		})
	}, append([]string{"init"}, args...)...)
	if got != status {
		t.Fatalf("the exit status is %d, want %d\n%s%s", got, status, out, errs)
	}
	return c.Env["HOME"], out + errs
}

// written are the two files.
func written(t *testing.T, home string) (configuration, policy string) {
	t.Helper()
	read := func(name string) string {
		data, err := os.ReadFile(filepath.Join(home, ".config/acphost", name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return read("config.yaml"), read("policy.yaml")
}

func expect(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not hold %q:\n%s", what, p, text)
		}
	}
}

func TestInit_WritesFilesFromAnswers(t *testing.T) {
	home, printed := initialised(t, &commandtest.Call{Terminal: true, Stdin: "nine\n99\ngemini\n2\n go test ./..., say \"hi\" \nmetadta\nmetadata\n"}, 0)
	configuration, policy := written(t, home)
	expect(t, "the configuration", configuration, "policy: policy.yaml", "journal: {content: false}")
	expect(t, "the rule file", policy, "ready policy workspace", "version: 1\nrules:\n", "id: always-allowed", `- "go test ./..."`, `- "say \"hi\""`)
	expect(t, "what is printed", printed, "1  readonly   Looking and nothing else\n", "2  workspace  Everyday work in a repository\n",
		`expected 1 to`, `got "nine"`, `did you mean "metadata"?`, "acphost chat --agent gemini", "2 commands that may always run")
}

func TestInit_DefaultsWithoutTerminal(t *testing.T) {
	for _, c := range []*commandtest.Call{{}, {Terminal: true}} {
		args := []string{"--yes"}
		if !c.Terminal {
			args = nil
		}
		home, printed := initialised(t, c, 0, args...)
		configuration, policy := written(t, home)
		expect(t, "the configuration", configuration, "journal: {content: true}")
		if strings.Contains(configuration, "serve:") || strings.Contains(policy, "always-allowed") {
			t.Errorf("there is more than was asked for:\n%s%s", configuration, policy)
		}
		expect(t, "what is printed", printed, "acphost chat --agent NAME")
	}
}

func TestInit_ServesInstalledAgent(t *testing.T) {
	bin := t.TempDir()
	if err := os.WriteFile(filepath.Join(bin, "gemini"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	home, _ := initialised(t, &commandtest.Call{Env: map[string]string{"HOME": t.TempDir(), "PATH": bin}}, 0)
	configuration, _ := written(t, home)
	expect(t, "the configuration", configuration, "preset: gemini")
}

func TestInit_KeepsExistingFiles(t *testing.T) {
	c := &commandtest.Call{}
	home, _ := initialised(t, c, 0)
	file := filepath.Join(home, ".config/acphost/policy.yaml")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, printed := initialised(t, c, 1, "--record", "none")
	expect(t, "the refusal", printed, "config.yaml is there already", "--force")
	if _, policy := written(t, home); policy != "mine" {
		t.Errorf("the rule file is %q", policy)
	}
	initialised(t, c, 0, "--force", "--record", "none")
	if kept, err := os.ReadFile(file + backupSuffix); err != nil || string(kept) != "mine" {
		t.Errorf("kept is %q, %v", kept, err)
	}
	configuration, _ := written(t, home)
	expect(t, "the configuration", configuration, "disabled: true")
	_, printed = initialised(t, c, 0, "--print", "--policy", "readonly")
	expect(t, "what is printed", printed, "# "+file, "ready policy readonly", "permission:")
}

func TestInit_ErrorsWriteNothing(t *testing.T) {
	for _, c := range []struct {
		call   commandtest.Call
		status int
		args   []string
		want   string
	}{
		{commandtest.Call{Agent: true}, 1, nil, "for people"},
		{commandtest.Call{Terminal: true, Stdin: "1\n"}, 1, nil, "the input ended before all was answered; nothing was written"},
		{commandtest.Call{}, 1, []string{"--allow", "f ("}, `takes no rule that always allows "f (", for the reasons above; nothing was written`},
		{commandtest.Call{}, 1, []string{"--allow", "make test", "--allow", "git push"}, `the policy workspace takes no rule that always allows "git push", for the reasons above; nothing was written: leave out these`},
		{commandtest.Call{}, 1, []string{"--policy", "readonly", "--allow", "make"}, "leave out --allow"},
		{commandtest.Call{}, 1, []string{"--agent", "gemni"}, `did you mean "gemini"?`},
		{commandtest.Call{}, 2, []string{"--policy", "workspce"}, `did you mean "workspace"?`},
		{commandtest.Call{}, 2, []string{"--record", "al"}, `did you mean "all"?`},
		{commandtest.Call{}, 2, []string{"--allow", " "}, "expected a command"},
		{commandtest.Call{Env: map[string]string{}}, 1, nil, "neither XDG_CONFIG_HOME nor HOME"},
	} {
		home, printed := initialised(t, &c.call, c.status, c.args...)
		expect(t, strings.Join(c.args, " "), printed, c.want)
		if _, err := os.Stat(filepath.Join(home, ".config")); home != "" && err == nil {
			t.Errorf("%q: something was written", c.args)
		}
	}
}
