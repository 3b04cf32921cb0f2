package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
)

// rules plays permd: rules that deny words with "secret" and allow words with "fine", and files that have an error if
// their content requests one.
type rules struct {
	permissionv1.PolicyServiceClient
	stopped int

	mu    sync.Mutex
	files []*permissionv1.PolicyFile // of the last question
}

func (r *rules) Check(_ context.Context, req *permissionv1.CheckRequest, _ ...grpc.CallOption) (*permissionv1.CheckResponse, error) {
	if strings.Contains(string(req.GetFile().GetContent()), "alow") {
		return &permissionv1.CheckResponse{Findings: []*permissionv1.Finding{
			{Severity: permissionv1.Severity_SEVERITY_ERROR, Line: 2, Column: 3, Message: "there is no such effect"},
		}}, nil
	}
	return &permissionv1.CheckResponse{Rules: 3, Tests: 1}, nil
}

func (r *rules) Explain(_ context.Context, req *permissionv1.ExplainRequest, _ ...grpc.CallOption) (*permissionv1.ExplainResponse, error) {
	r.mu.Lock()
	r.files = req.GetFiles()
	r.mu.Unlock()
	d := &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ASK}
	text := req.GetAction().GetCommand().GetText()
	for _, p := range req.GetAction().GetPaths() {
		text += p.GetPath()
	}
	switch {
	case strings.Contains(text, "secret"):
		d = &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_DENY, Rule: "secrets", Reason: "Secrets stay where they are."}
	case strings.Contains(text, "fine"):
		d = &permissionv1.DecideResponse{Verdict: permissionv1.Verdict_VERDICT_ALLOW, Rule: "fine"}
	}
	return &permissionv1.ExplainResponse{Decision: d}, nil
}

func (r *rules) Import(context.Context, *permissionv1.ImportRequest, ...grpc.CallOption) (*permissionv1.ImportResponse, error) {
	return &permissionv1.ImportResponse{Policy: []byte("version: 1\n"), Format: "claude",
		Dropped: []*permissionv1.Dropped{{Entry: "WebFetch", Why: "no rule can say it"}}}, nil
}

func (r *rules) ListReadyPolicies(
	context.Context, *permissionv1.ListReadyPoliciesRequest, ...grpc.CallOption,
) (*permissionv1.ListReadyPoliciesResponse, error) {
	return &permissionv1.ListReadyPoliciesResponse{Policies: []*permissionv1.ReadyPolicy{
		{Name: "ask", Description: "Asks.", Content: []byte("# ask\n")}, {Name: "readonly", Description: "Reads.", Content: []byte("# readonly\n")},
	}}, nil
}

// policyCall is one call of "acphost policy".
type policyCall struct {
	rules
	home     string // of the user; the configuration is below it
	stdin    string
	terminal bool
	failing  error // why permd does not start
	agent    bool  // an agent calls it
}

// run returns the exit status and what was printed.
func (c *policyCall) run(t *testing.T, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	if c.home == "" {
		c.home = t.TempDir()
	}
	start := func(context.Context, *slog.Logger) (permissionv1.PolicyServiceClient, func(context.Context) error, error) {
		return &c.rules, func(context.Context) error { c.stopped++; return nil }, c.failing
	}
	called := &commandtest.Call{Env: map[string]string{"HOME": c.home}, Stdin: c.stdin, Agent: c.agent}
	return called.Run(t, func(call *command.Call) *cobra.Command {
		call.Terminal = func(f *os.File) bool { return c.terminal && f == call.Stdin }
		return New(call, start)
	}, append([]string{"policy"}, args...)...)
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPolicyCheck_ReportsLoadErrors(t *testing.T) {
	dir := t.TempDir()
	good, bad := writeFile(t, filepath.Join(dir, "good.yaml"), "x"), writeFile(t, filepath.Join(dir, "bad.yaml"), "alow")
	c := &policyCall{}
	status, stdout, stderr := c.run(t, "check", good)
	if status != 0 || stdout != good+": 3 rules, 1 test, ok\n" || stderr != "" || c.stopped != 1 {
		t.Errorf("status %d, %q, %q, permd stopped %d times", status, stdout, stderr, c.stopped)
	}
	status, stdout, _ = c.run(t, "check", bad, good)
	want := bad + ":2:3: error: there is no such effect\n" + bad + ": 1 error, does not load\n" + good + ": 3 rules, 1 test, ok\n"
	if status != 1 || stdout != want {
		t.Errorf("status %d, output\n%s\nwant 1 and\n%s", status, stdout, want)
	}
	status, stdout, _ = (&policyCall{stdin: "alow"}).run(t, "check", "--json", "-")
	var list []struct{ File string }
	if err := json.Unmarshal([]byte("["+stdout+"]"), &list); status != 1 || err != nil || len(list) != 1 || list[0].File != "-" {
		t.Errorf("status %d, %v, %q", status, err, stdout)
	}
}

func TestPolicyWhy_UsesEffectiveFiles(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	writeFile(t, filepath.Join(home, ".config/acphost/policy.yaml"), "user")
	writeFile(t, filepath.Join(work, ".acphost/policy.yaml"), "workspace")
	c := &policyCall{home: home}
	status, stdout, stderr := c.run(t, "why", "--path", "secret.txt", "--cwd", work)
	if status != 0 || stderr != "" || !strings.HasPrefix(stdout, "deny  rule secrets  Secrets stay where they are.\n") {
		t.Errorf("status %d, stderr %q, output\n%s", status, stderr, stdout)
	}
	if len(c.files) != 2 || string(c.files[0].GetContent()) != "user" || c.files[1].GetLayer() != permissionv1.Layer_LAYER_WORKSPACE {
		t.Errorf("it was decided by %v", c.files)
	}
	for _, want := range []string{"~/.config/acphost/policy.yaml", filepath.Join(work, ".acphost/policy.yaml"), "fs/read_text_file", work} {
		if !strings.Contains(stdout, want) {
			t.Errorf("%q is not shown:\n%s", want, stdout)
		}
	}
	if _, stdout, _ := c.run(t, "why", "--policy", "readonly", "--command", "fine && ls"); !strings.HasPrefix(stdout, "allow  rule fine\n") ||
		len(c.files) != 1 || string(c.files[0].GetContent()) != "# readonly\n" {
		t.Errorf("with a ready policy: by %v, output\n%s", c.files, stdout)
	}
	if _, stdout, _ := c.run(t, "why", "--path", filepath.Join(home, ".config/acphost/policy.yaml"), "--on", "fs.write"); !strings.HasPrefix(stdout, "deny  rule acphost/protected") {
		t.Errorf("acphost's own file:\n%s", stdout)
	}
}

func TestPolicyWhy_ReadsActionAsJSON(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules.yaml")
	writeFile(t, rules, "version: 1\n")
	c := &policyCall{stdin: `{"kind": "fs.read", "agent": "gem", "paths": [{"path": "/fine"}]}`}
	status, stdout, _ := c.run(t, "why", "--action", "-", "--json", "--policy", rules)
	var got struct {
		Decision struct{ Rule string }
		Action   struct{ Agent string }
	}
	if err := json.Unmarshal([]byte(stdout), &got); err != nil || status != 0 || got.Decision.Rule != "fine" || got.Action.Agent != "gem" {
		t.Errorf("status %d, %v, output\n%s", status, err, stdout)
	}
}

func TestPolicyWhy_WithoutPolicy(t *testing.T) {
	status, stdout, stderr := (&policyCall{}).run(t, "why", "--command", "make")
	if status != 0 || !strings.HasPrefix(stdout, "allow  rule acphost/no-policy") || !strings.Contains(stderr, "no policy is set") {
		t.Errorf("status %d, output\n%s\nstderr %q", status, stdout, stderr)
	}
}

func TestPolicyReplay_ListsDifferences(t *testing.T) {
	home := t.TempDir()
	var record bytes.Buffer
	for _, r := range []struct{ verdict, command string }{{"ask", "fine"}, {"allow", "fine"}, {"allow", "cat secret"}} {
		line, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(&supervisorv1.AuditRecord{
			Time: timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Id: "0123456789abcdef0123456789abcdef", Agent: "gem", Door: "call",
			Verdict: r.verdict, Plugin: "permd 1", AnsweredBy: "policy", Outcome: "allowed",
			Action: &permissionv1.Action{Kind: "terminal.create", Agent: "gem", Roots: []string{"/w"}, Command: &permissionv1.Command{Text: r.command}},
		})
		if err != nil {
			t.Fatal(err)
		}
		record.Write(append(line, '\n'))
	}
	writeFile(t, filepath.Join(home, ".local/state/acphost/audit.jsonl"), record.String())
	c := &policyCall{home: home}
	status, stdout, stderr := c.run(t, "replay", "--policy", "readonly")
	if status != 0 || stderr != "" || !strings.HasSuffix(stdout, "\n3 decisions, 2 differ: 1 allow→deny, 1 ask→allow\n") || !strings.Contains(stdout, "cat secret") {
		t.Errorf("status %d, stderr %q, output\n%s", status, stderr, stdout)
	}
	bad := writeFile(t, filepath.Join(home, "bad.yaml"), "alow")
	if status, stdout, stderr := c.run(t, "replay", "--policy", bad); status != 1 || stdout != "" || !strings.Contains(stderr, "there is no such effect") {
		t.Errorf("a bad rule file: status %d, %q, %q", status, stdout, stderr)
	}
	if status, _, stderr := c.run(t, "replay", "--policy", "ask", "/missing.jsonl"); status != 1 || !strings.Contains(stderr, "/missing.jsonl") {
		t.Errorf("a missing record: status %d, %q", status, stderr)
	}
}

func TestPolicyImport_NeedsForceToReplace(t *testing.T) {
	dir := t.TempDir()
	from, out := writeFile(t, filepath.Join(dir, "settings.json"), "{}"), filepath.Join(dir, "policy.yaml")
	c := &policyCall{}
	status, stdout, stderr := c.run(t, "import", from)
	if status != 0 || stdout != "version: 1\n" || !strings.Contains(stderr, "  WebFetch\n    no rule can say it\n") {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
	if status, stdout, _ := c.run(t, "import", from, "--out", out); status != 0 || stdout != "" {
		t.Errorf("status %d, output %q", status, stdout)
	}
	if status, _, stderr := c.run(t, "import", from, "--out", out); status != 1 || !strings.Contains(stderr, "--force") {
		t.Errorf("status %d, %q; want a word on --force", status, stderr)
	}
	if status, _, _ := c.run(t, "import", from, "--out", out, "--force"); status != 0 {
		t.Errorf("with --force: status %d", status)
	}
	if got, err := os.ReadFile(out); err != nil || string(got) != "version: 1\n" {
		t.Errorf("the file holds %q, %v", got, err)
	}
}

func TestPolicyShow_ListsAndPrints(t *testing.T) {
	if _, stdout, _ := (&policyCall{}).run(t, "show"); stdout != "ask       Asks.\nreadonly  Reads.\n" {
		t.Errorf("the list is\n%s", stdout)
	}
	if _, stdout, _ := (&policyCall{}).run(t, "show", "readonly"); stdout != "# readonly\n" {
		t.Errorf("it is %q", stdout)
	}
	if status, _, stderr := (&policyCall{}).run(t, "show", "readnoly"); status != 1 || !strings.Contains(stderr, "there are: ask, readonly") {
		t.Errorf("status %d, %q", status, stderr)
	}
}

func TestPolicyTrust_ShowsAsksAndRemembers(t *testing.T) {
	home, work := t.TempDir(), t.TempDir()
	file := writeFile(t, filepath.Join(work, ".acphost/policy.yaml"), "version: 1\nrules: [{id: build, effect: allow, command: [make]}]\n")
	trusted := func(c *policyCall) bool {
		_, _, _ = c.run(t, "why", "--path", "x", "--cwd", work)
		return c.files[len(c.files)-1].GetLayer() == permissionv1.Layer_LAYER_WORKSPACE_TRUSTED
	}
	for _, step := range []struct {
		name    string
		call    *policyCall
		args    []string
		status  int
		stdout  string
		stderr  string
		trusted bool
	}{
		{"unattended", &policyCall{}, []string{work}, 1, "- make", "--yes", false},
		{"an agent", &policyCall{agent: true}, []string{"--yes", work}, 1, "", "acphost policy trust is for people", false},
		{"a no", &policyCall{terminal: true, stdin: "n\n"}, []string{work}, 1, "Trust this file as it is now? [y/N] not trusted\n", "", false},
		{"no answer", &policyCall{terminal: true}, []string{work}, 1, "not trusted\n", "", false},
		{"a yes", &policyCall{terminal: true, stdin: "y\n"}, []string{work}, 0, "[y/N] trusted, until it changes", "", true},
		{"the list", &policyCall{}, []string{"--list"}, 0, "the same", "", true},
		{"an agent withdraws it", &policyCall{agent: true}, []string{"--remove", file}, 1, "", "acphost policy trust is for people", true},
		{"taken back", &policyCall{}, []string{"--remove", file}, 0, "is not trusted any more", "", false},
		{"taken back twice", &policyCall{}, []string{"--remove", file}, 1, "", "is not trusted; --list", false},
		{"answered by a grant", &policyCall{}, []string{"--yes", file}, 0, "trusted, until it changes", "", true},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.call.home = home
			status, stdout, stderr := step.call.run(t, append([]string{"trust"}, step.args...)...)
			if status != step.status || !strings.Contains(stdout, step.stdout) || !strings.Contains(stderr, step.stderr) {
				t.Errorf("status %d, output\n%s%s\nwant %d, %q and %q", status, stdout, stderr, step.status, step.stdout, step.stderr)
			}
			if got := trusted(step.call); got != step.trusted {
				t.Errorf("it is trusted: %v, want %v", got, step.trusted)
			}
		})
	}
	writeFile(t, file, "version: 1\nrules: [{id: build, effect: deny, command: [make]}]\n")
	if status, stdout, _ := (&policyCall{home: home}).run(t, "trust", work); status != 0 || !strings.Contains(stdout, "allows nothing") {
		t.Errorf("a file that only tightens: status %d, %q", status, stdout)
	}
}

func TestPolicy_UsageErrors(t *testing.T) {
	for _, c := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"an unknown command", []string{"chek"}, 2, `there is no command "chek"`},
		{"the tests", []string{"test", "p.yaml"}, 2, `there is no command "test": did you mean "acphost policy check [FILE...]" (check rule files and run their tests)?`},
		{"nothing to explain", []string{"why"}, 2, "expected one of --command, --path, --host, --denied, --approval and --action, or a program after --"},
		{"two to explain", []string{"why", "--command=a", "--path=b"}, 2, "expected one of --command, --path, --host, --denied, --approval and --action, or a program after --"},
		{"a program and a path", []string{"why", "--path=a", "--", "make"}, 2, "or a program after --"},
		{"an argument", []string{"why", "make"}, 2, "takes no argument"},
		{"a program of another kind", []string{"why", "--on=process.read", "--", "make"}, 1, "for the kind process.start"},
		{"another wall", []string{"why", "--command=a", "--walls=files,sound"}, 2, `or none, got "sound"`},
		{"a wall alone", []string{"why", "--command=a", "--walls=network"}, 2, "only with files"},
		{"an action and its walls", []string{"why", "--denied", "--walls=files"}, 2, "the action says them itself"},
		{"an action and its kind", []string{"why", "--action=-", "--on=fs.read"}, 2, "the action says them itself"},
		{"an address without a host", []string{"why", "--path=a", "--address=::1"}, 2, "--address is for --host"},
		{"an invalid host", []string{"why", "--host=127.1"}, 1, "four decimal numbers"},
		{"a host and another kind", []string{"why", "--host=a", "--on=fs.read"}, 1, "connects to no machine"},
		{"a kind that does not fit", []string{"why", "--path=a", "--on=terminal.create"}, 1, "has no path"},
		{"a profile of other walls", []string{"profile", "--walls=sound"}, 2, `or none, got "sound"`},
		{"a profile without a policy", []string{"profile"}, 1, "name one with --policy"},
		{"nothing to replay by", []string{"replay", "x"}, 2, "--policy is missing"},
		{"nothing to import", []string{"import"}, 2, "the file is missing"},
		{"a format", []string{"import", "x", "--format=cursor"}, 2, `--format: expected claude, gemini or opencode, got "cursor"`},
		{"two to show", []string{"show", "a", "b"}, 2, "one policy is shown at a time"},
		{"list and remove", []string{"trust", "--list", "--remove"}, 2, "either --list or --remove"},
		{"a file that is missing", []string{"check", "/missing.yaml"}, 1, "open /missing.yaml"},
		{"a workspace without a rule file", []string{"trust", os.TempDir() + "/missing"}, 1, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, stdout, stderr := (&policyCall{}).run(t, c.args...)
			if status != c.status || !strings.Contains(stderr, c.want) || stdout != "" {
				t.Errorf("status %d, output %q, stderr %q; want %d and %q", status, stdout, stderr, c.status, c.want)
			}
		})
	}
}

func TestPolicy_ReportsPermdStartError(t *testing.T) {
	c := &policyCall{failing: errors.New("start permd: no such program")}
	if status, _, stderr := c.run(t, "show"); status != 1 || stderr != "acphost: start permd: no such program\n" {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestPolicyWhy_RejectsOtherPolicyPrograms(t *testing.T) {
	c := &policyCall{}
	config := commandtest.ConfigFile(t, "permission: {command: [./mine]}")
	if status, _, stderr := c.run(t, "why", "--config", config, "--path", "x"); status != 1 || !strings.Contains(stderr, "another policy") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
	config = commandtest.ConfigFile(t, "permission: [./mine, permd]")
	if status, _, stderr := c.run(t, "why", "--config", config, "--path", "x"); status != 0 || !strings.Contains(stderr, "one of 2 policies") {
		t.Errorf("status %d, stderr %q", status, stderr)
	}
}

func TestPolicy_Help(t *testing.T) {
	for command, want := range map[string]string{
		"": "check ", "check": "FILE:LINE:COLUMN", "why": "--cwd FOLDER", "profile": "--walls WALLS", "replay": "--policy FILE", "import": "--force", "show": "policy.yaml", "trust": "--list", "reload": "--pid PID",
	} {
		status, stdout, stderr := (&policyCall{}).run(t, strings.Fields(command+" --help")...)
		if status != 0 || stderr != "" || !strings.Contains(stdout, want) || command != "" && strings.Count(stdout, "\n  acphost policy "+command) < 2 {
			t.Errorf("%s: status %d, %q, output\n%s", command, status, stderr, stdout)
		}
		for line := range strings.Lines(stdout) {
			if len([]rune(line)) > 101 {
				t.Errorf("%s: a line is wider than 100 columns: %s", command, line)
			}
		}
	}
}
