package audit

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// recorded is an environment with an audit of three decisions and an invalid line.
func recorded(t *testing.T) map[string]string {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "acphost", "audit.jsonl")
	l, err := audit.Open(audit.Options{File: file})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for _, r := range []*supervisorv1.AuditRecord{
		{Time: timestamppb.New(now.Add(-48 * time.Hour)), Id: "1", Agent: "claude", Verdict: "allow", Outcome: "allowed", Rule: "git", AnsweredBy: "policy",
			Action: &permissionv1.Action{Kind: "terminal.create", Roots: []string{"/w"}, Command: &permissionv1.Command{Text: "git status\x1b[2K"}}},
		{Time: timestamppb.New(now.Add(-time.Hour)), Id: "2", Agent: "gemini", Door: "call", Verdict: "ask", Outcome: "denied", AnsweredBy: "front",
			Action: &permissionv1.Action{Kind: "fs.write", Paths: []*permissionv1.PathAccess{{Path: "/w/a", InsideRoots: true}}}},
		{Time: timestamppb.New(now), Note: "the last line was torn by a crash; 7 bytes were cut off"},
	} {
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("garbage\n"); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir}
}

func TestAuditTail_PrintsTableAndJSON(t *testing.T) {
	env := recorded(t)
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "audit", "tail")
	lines := strings.Split(strings.TrimSpace(stdout), "\n")
	if status != 0 || len(lines) != 4 || !strings.HasPrefix(lines[0], "TIME (") || !strings.Contains(stderr, "audit.jsonl:4: ") {
		t.Fatalf("status %d, %q, %q", status, stdout, stderr)
	}
	for i, want := range [][]string{
		{"allow ", "allowed ", `run git status\u{1b}[2K in /w`, "git", "claude"},
		{"ask ", "denied ", "write /w/a", "call  no rule", "gemini  front"},
		{"note ", "the last line was torn"},
	} {
		for _, w := range want {
			if !strings.Contains(lines[i+1], w) {
				t.Errorf("%q is not in %q", w, lines[i+1])
			}
		}
	}
	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, New, "audit", "tail", "-n", "1", "--json")
	var note map[string]any
	if err := json.Unmarshal([]byte(stdout), &note); err != nil || status != 0 || note["note"] == nil {
		t.Errorf("status %d, %v: %s", status, err, stdout)
	}
}

func TestRecordLine_UnaskedActionsAlignColumns(t *testing.T) {
	call := (&commandtest.Call{}).New(t)
	rule := func(outcome string) int {
		return strings.Index(recordLine(call, &supervisorv1.AuditRecord{Verdict: "ask", Outcome: outcome, Rule: "RULE"}), "RULE")
	}
	if got, want := rule("done, not asked"), rule("allowed"); got != want {
		t.Errorf("the rule is in column %d, and elsewhere in %d", got, want)
	}
}

func TestRecordLine_ShowsOriginAndTimeout(t *testing.T) {
	r := &supervisorv1.AuditRecord{Verdict: "ask", Outcome: "denied", Door: "kernel", AnsweredBy: "timeout", Action: &permissionv1.Action{Kind: "fs.write"}}
	line := recordLine((&commandtest.Call{}).New(t), r)
	for _, want := range []string{"  kernel  ", ", answered by nobody in time"} {
		if !strings.Contains(line, want) {
			t.Errorf("%q is not in %q", want, line)
		}
	}
}

func TestRecordLine_ShowsRepeatCount(t *testing.T) {
	call := (&commandtest.Call{}).New(t)
	r := &supervisorv1.AuditRecord{Action: &permissionv1.Action{Kind: "fs.write", Paths: []*permissionv1.PathAccess{{Path: "/w/a", InsideRoots: true}}}, Repeats: 4}
	if line := recordLine(call, r); !strings.Contains(line, "4 more like: write /w/a") {
		t.Errorf("got %q", line)
	}
}

func TestAuditQuery_Filters(t *testing.T) {
	env := recorded(t)
	for _, tt := range []struct{ args, want string }{
		{"", "12"},
		{"--since 2h", "2"},
		{"--since 1d", "2"},
		{"--until 1d", "1"},
		{"--since 2020-01-01 --until 2020-01-02T00:00:00Z", ""},
		{"--verdict ask", "2"},
		{"--outcome allowed", "1"},
		{"--rule git", "1"},
		{"--agent gemini", "2"},
		{"--kind fs.*", "2"},
		{"--text STATUS", "1"},
		{"--session x", ""},
		{"--cwd /w", "1"},
		{"--cwd /w/below", ""},
		{"--verdict ask --limit 1", "2"},
	} {
		status, stdout, _ := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"audit", "query", "--json"}, strings.Fields(tt.args)...)...)
		got := ""
		for d := json.NewDecoder(strings.NewReader(stdout)); d.More(); {
			var r struct{ ID string }
			if err := d.Decode(&r); err != nil {
				t.Fatal(err)
			}
			got += r.ID
		}
		if status != 0 || got != tt.want {
			t.Errorf("%q: status %d, got %q, want %q", tt.args, status, got, tt.want)
		}
	}
	for _, wrong := range []struct{ flag, got, want string }{{"verdict", "allowed", `"allow"`}, {"outcome", "canceled", `"cancelled"`}, {"door", "calls", `"call"`}} {
		status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, "audit", "query", "--"+wrong.flag, wrong.got)
		if status != command.StatusUsage || !strings.Contains(stderr, "did you mean "+wrong.want) {
			t.Errorf("--%s %s: status %d, %s", wrong.flag, wrong.got, status, stderr)
		}
	}
	for _, args := range [][]string{{"query", "--since", "yesterday"}, {"query", "--limit", "-1"}, {"query", "--kind", "["}, {"query", "x"}, {"tail", "-n", "-1"}, {"nothing"}} {
		if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"audit"}, args...)...); status != command.StatusUsage {
			t.Errorf("%q: status %d, %s", args, status, stderr)
		}
	}
}

func TestAuditTail_MissingLog(t *testing.T) {
	dir := t.TempDir()
	env := map[string]string{"XDG_STATE_HOME": dir, "XDG_CONFIG_HOME": dir}
	if status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "audit", "tail"); status != 0 || stdout != "" || stderr != "no decision is recorded\n" {
		t.Errorf("status %d, %q, %q", status, stdout, stderr)
	}
}

func TestAuditQuery_EmptyResult(t *testing.T) {
	env := recorded(t)
	if status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "audit", "query", "--session", "x"); status != 0 || stdout != "" || !strings.HasSuffix(stderr, "\nno recorded decision matches\n") {
		t.Errorf("query: status %d, %q, %q", status, stdout, stderr)
	}
}
