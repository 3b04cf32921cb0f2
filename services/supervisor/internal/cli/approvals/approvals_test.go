package approvals

import (
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/commandtest"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/output"
)

func TestApprovalsList_ShowsOptions(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11})
	status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "approvals", "list")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	testkit.Golden(t, "approvals-list.txt", stdout)

	status, stdout, _ = (&commandtest.Call{Env: env}).Run(t, New, "approvals", "list", "--json", "--session", "s1")
	list, err := testkit.JSONLines[struct {
		ID         string
		Supervisor int
		Permission struct{ Title string }
	}]([]byte(stdout))
	if err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	if len(list) != 1 || list[0].ID != "gemini-1/7" || list[0].Supervisor != 11 || !strings.Contains(list[0].Permission.Title, "git push") {
		t.Errorf("the list is %+v", list)
	}
	if strings.ContainsAny(stdout, "\x1b\x07") {
		t.Errorf("an agent's text controls the terminal: %q", stdout)
	}
}

func TestApprovalsAnswer_CallsOwningSupervisor(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		want string // printed
		is   func(*supervisorv1.AnswerApprovalRequest) bool
	}{
		{"an option", []string{"gemini-1/7", "yes"}, "gemini-1/7: allowed (yes)\n", func(r *supervisorv1.AnswerApprovalRequest) bool { return r.GetOptionId() == "yes" }},
		{"a form", []string{"gemini-1/8", "--accept", `{"branch": "main"}`}, "gemini-1/8: allowed\n", func(r *supervisorv1.AnswerApprovalRequest) bool { return r.GetAccept() == `{"branch": "main"}` }},
		{"no", []string{"gemini-1/8", "--decline"}, "gemini-1/8: allowed\n", func(r *supervisorv1.AnswerApprovalRequest) bool { return r.GetDecline() }},
		{"nothing", []string{"gemini-1/8", "--cancel"}, "gemini-1/8: allowed\n", func(r *supervisorv1.AnswerApprovalRequest) bool { return r.GetCancel() }},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &commandtest.Supervisor{PID: 11}
			status, stdout, stderr := (&commandtest.Call{Env: commandtest.Play(t, p)}).Run(t, New, append([]string{"approvals", "answer"}, c.args...)...)
			if status != 0 || stdout != c.want {
				t.Fatalf("status %d, %q, want %q: %s", status, stdout, c.want, stderr)
			}
			if !c.is(p.Answered) || p.Answered.GetAnsweredBy() != "cli" {
				t.Errorf("the supervisor received %v", p.Answered)
			}
		})
	}
}

func TestApprovalsAnswer_LateNamesFirstAnswerer(t *testing.T) {
	status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11})}).Run(t, New, "approvals", "answer", "gemini-1/7", "late")
	if status != 1 || stderr != "acphost: the question gemini-1/7 does not wait any more (it was denied by front)\n" {
		t.Errorf("status %d: %s", status, stderr)
	}
}

// An agent withdraws a question and asks another one, whose handle it chooses.
func TestApprovalsAnswer_NeverMatchesPrefixOfOtherID(t *testing.T) {
	secret, other := "."+strings.Repeat("A", 26), "."+strings.Repeat("B", 26)
	for _, c := range []struct{ name, given, waits, shown string }{
		{"another number", "a-1/7", "a-1/70", "a-1/70"},
		{"a string", "a-1/7", "a-1/7x", "a-1/7x"},
		{"a second use of its id", "a-1/7", "a-1/7~2", "a-1/7~2"},
		{"one of acphost's own", "a-1/acphost", "a-1/acphost:2", "a-1/acphost:2"},
		{"the only one of an agent", "a-1/", "a-1/7", "a-1/7"},
		{"the begin of an id", "a-1/7" + secret[:20], "a-1/7", "a-1/7"},
		{"the id of one before", "a-1/7" + secret, "a-1/7", "a-1/7"},
		{"one that is called as an id was", "a-1/7" + other, "a-1/7" + other, "a-1/7" + other + secret},
	} {
		t.Run(c.name, func(t *testing.T) {
			q := &supervisorv1.Approval{
				Id: c.waits + secret, AgentId: "a-1", Permission: &supervisorv1.PermissionQuestion{Title: "touch this"},
			}
			if c.given == q.GetId() {
				q.Id = c.waits + other
			}
			p := &commandtest.Supervisor{PID: 11, Questions: []*supervisorv1.Approval{q}}
			run := func(id string) (int, string) {
				status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, p)}).Run(t, New, "approvals", "answer", id, "yes")
				return status, stderr
			}
			status, printed := run(c.given)
			if p.Answered != nil || status != 1 || !strings.HasSuffix(printed, "; these wait:\n  "+q.GetId()[len(q.GetId())-26:][:8]+"  "+output.OneLine(c.shown, 40)+"  touch this\n") {
				t.Fatalf("status %d, answered %v: %s", status, p.Answered, printed)
			}
			if status, printed := run(c.shown); status != 0 || p.Answered.GetId() != q.GetId() {
				t.Errorf("a question that is reported as pending: status %d, answered %v: %s", status, p.Answered, printed)
			}
		})
	}
	_, _, printed := (&commandtest.Call{Env: commandtest.Play(t, &commandtest.Supervisor{PID: 11, Questions: []*supervisorv1.Approval{}})}).Run(t, New, "approvals", "answer", "a-1/7", "yes")
	if !strings.HasSuffix(printed, "; none waits\n") {
		t.Errorf("with nothing to answer: %s", printed)
	}
}

func TestApprovalsAnswer_AcceptsUniquePrefix(t *testing.T) {
	question := func(handle, random string) *supervisorv1.Approval {
		return &supervisorv1.Approval{
			Id: handle + "." + random + strings.Repeat("A", 26-len(random)), AgentId: "a-1", Permission: &supervisorv1.PermissionQuestion{Title: "touch this"},
		}
	}
	long := "a-1/s:" + strings.Repeat("0", 60)
	for name, c := range map[string]struct {
		given  string
		want   int // of the questions; -1: none is answered
		stderr string
	}{
		"six characters":        {"K7QF2M", 0, ""},
		"lower case":            {"k7qf2m", 0, ""},
		"more characters":       {"K7QF2MAAAA", 0, ""},
		"prefix of two":         {"K7QF", -1, "2 questions begin with K7QF: give more characters; these wait:\n  K7QF2MAA  a-1/7  touch this\n  K7QFXXAA  a-1/s:000"},
		"too few":               {"K7Q", -1, "no question"},
		"prefix of a handle":    {"a-1/s:0", -1, "no question"},
		"whole handle":          {long, 1, ""},
		"prefix of no question": {"ZZZZZZ", -1, "no question"},
		"part of a handle":      {"PQRS", -1, "no question"},
	} {
		t.Run(name, func(t *testing.T) {
			questions := []*supervisorv1.Approval{question("a-1/7", "K7QF2M"), question(long, "K7QFXX"), question("a-1/PQRSTU", "BBBB")}
			p := &commandtest.Supervisor{PID: 11, Questions: questions}
			other := &commandtest.Supervisor{PID: 12, Questions: []*supervisorv1.Approval{}}
			status, _, stderr := (&commandtest.Call{Env: commandtest.Play(t, p, other)}).Run(t, New, "approvals", "answer", c.given, "yes")
			if c.want >= 0 {
				if status != 0 || p.Answered.GetId() != questions[c.want].GetId() {
					t.Errorf("status %d, answered %v: %s", status, p.Answered, stderr)
				}
				return
			}
			if status != 1 || p.Answered != nil || !strings.Contains(stderr, c.stderr) {
				t.Errorf("status %d, answered %v: %s; want %q", status, p.Answered, stderr, c.stderr)
			}
		})
	}
}

func TestApprovalsAnswer_UsageErrors(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11}, &commandtest.Supervisor{PID: 12})
	for want, args := range map[string][]string{
		"expected a question's id":             {},
		"expected one answer":                  {"gemini-1/7"},
		"expected one answer: ":                {"gemini-1/7", "yes", "--decline"},
		"2 supervisors have a question gemini": {"gemini-1/7", "yes"},
		"no question other/1 waits; these":     {"other/1", "yes"},
		"no supervisor runs as process 13":     {"gemini-1/7", "yes", "--pid", "13"},
	} {
		if status, _, stderr := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"approvals", "answer"}, args...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
	if status, stdout, stderr := (&commandtest.Call{Env: env}).Run(t, New, "approvals", "answer", "gemini-1/7", "yes", "--pid", "12"); status != 0 || stdout == "" {
		t.Errorf("of the one that is meant: %d, %s", status, stderr)
	}
}

func TestApprovalsAnswer_CompletesQuestionsAndOptions(t *testing.T) {
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"approvals", "answer", ""}, "gemini-1/8\tWhich branch?\n"},
		{[]string{"approvals", "answer", "gemini-1/7", ""}, "yes\tAllow\n"},
	} {
		if status, stdout, _ := (&commandtest.Call{Env: env}).Run(t, New, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q is completed with %q, want %q (%d)", c.args, stdout, c.want, status)
		}
	}
}

func TestApprovalsList_ShowsDiffAndCountsOmittedLines(t *testing.T) {
	lines := strings.Repeat("x\n", 100) + "the end\n"
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11, Questions: []*supervisorv1.Approval{{
		Id: "a/1", Permission: &supervisorv1.PermissionQuestion{Title: "Edit", Kind: "edit", Content: []*supervisorv1.ToolCallContent{{
			Item: &supervisorv1.ToolCallContent_Diff{Diff: &supervisorv1.Diff{Path: "/work/ci.yml", NewText: lines}},
		}}},
	}, {
		Id: "a/2", Elicitation: &supervisorv1.Elicitation{Mode: "form", Message: strings.Repeat("y ", 300) + "\nreally"},
	}}})
	env["NO_COLOR"] = "1"
	status, stdout, stderr := (&commandtest.Call{Env: env, Terminal: true}).Run(t, New, "approvals", "list")
	if status != 0 || !strings.Contains(stdout, "    +x\n") || !strings.Contains(stdout, "… 41 more lines: --full shows all\n") || strings.Contains(stdout, "the end") || strings.Contains(stdout, "really") {
		t.Errorf("status %d: %s\n%s", status, stdout, stderr)
	}
	for _, c := range []struct {
		terminal bool
		args     []string
	}{{true, []string{"approvals", "list", "--full"}}, {false, []string{"approvals", "list"}}} {
		status, stdout, stderr = (&commandtest.Call{Env: env, Terminal: c.terminal}).Run(t, New, c.args...)
		if status != 0 || !strings.Contains(stdout, "    +the end\n") || !strings.Contains(stdout, "\n  really\n") || strings.Contains(stdout, "more line") {
			t.Errorf("status %d: %s\n%s", status, stdout, stderr)
		}
	}
}

func TestApprovalsAnswer_AllowsOnlyWhatListShows(t *testing.T) {
	long := `{"command":"make a` + strings.Repeat(`\nmake b`, 99) + `"}`
	options := []*supervisorv1.PermissionOption{
		{OptionId: "yes", Kind: "allow_once", Name: "Allow once: " + strings.Repeat("n", 90)},
		{OptionId: "no", Kind: "reject_once", Name: "Reject"},
	}
	for name, c := range map[string]struct {
		input    string
		terminal bool
		args     []string
		answered bool
	}{
		"allowed":                    {long, true, []string{"a/1", "yes"}, false},
		"allowed by kind":            {long, true, []string{"a/1", "allow_once"}, false},
		"allowed, after all of it":   {long, true, []string{"a/1", "yes", "--full"}, true},
		"rejected":                   {long, true, []string{"a/1", "no"}, true},
		"no decision":                {long, true, []string{"a/1", "--cancel"}, true},
		"the list is complete":       {long, false, []string{"a/1", "yes"}, true},
		"short, with a long option":  {`{"command":"make"}`, true, []string{"a/1", "yes"}, true},
		"a long form":                {"", true, []string{"a/2", "--accept", "{}"}, false},
		"a long form, after reading": {"", true, []string{"a/2", "--accept", "{}", "--full"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := &commandtest.Supervisor{PID: 11, Questions: []*supervisorv1.Approval{
				{Id: "a/1", Permission: &supervisorv1.PermissionQuestion{Title: "make", RawInput: c.input, Options: options}},
				{Id: "a/2", Elicitation: &supervisorv1.Elicitation{Mode: "form", Message: strings.Repeat("y ", 300)}},
			}}
			call := &commandtest.Call{Env: commandtest.Play(t, p), Terminal: c.terminal}
			status, _, stderr := call.Run(t, New, append([]string{"approvals", "answer"}, c.args...)...)
			refused := strings.Contains(stderr, "answer with --full")
			if (status == 0) != c.answered || (p.Answered != nil) != c.answered || refused == c.answered {
				t.Errorf("status %d, answered %v, want an answer: %v: %s", status, p.Answered, c.answered, stderr)
			}
		})
	}
}

func TestApprovalsList_MentionsFullFlag(t *testing.T) {
	name := strings.Repeat("n", 90) + " end"
	env := commandtest.Play(t, &commandtest.Supervisor{PID: 11, Questions: []*supervisorv1.Approval{
		{Id: "a/1", Permission: &supervisorv1.PermissionQuestion{Title: "make", RawInput: `{"command":"make","description":"Build","cwd":"/etc"}`}},
		{Id: "a/2", Permission: &supervisorv1.PermissionQuestion{Title: "make", RawInput: `{"command":"make"}`, Options: []*supervisorv1.PermissionOption{
			{OptionId: "yes  no", Kind: "allow_once", Name: name},
		}}},
	}})
	env["NO_COLOR"] = "1"
	status, stdout, stderr := (&commandtest.Call{Env: env, Terminal: true}).Run(t, New, "approvals", "list")
	if status != 0 || !strings.Contains(stdout, "    $ make\n    in /etc\n    … 1 more member of the input: --full shows all\n") ||
		!strings.Contains(stdout, "    $ make\n    … 14 more characters: --full shows all\n  yes  no ") || strings.Contains(stdout, "Build") {
		t.Errorf("status %d: %s\n%s", status, stdout, stderr)
	}
	for _, c := range []struct {
		terminal bool
		args     []string
	}{{true, []string{"approvals", "list", "--full"}}, {false, []string{"approvals", "list"}}} {
		status, stdout, stderr = (&commandtest.Call{Env: env, Terminal: c.terminal}).Run(t, New, c.args...)
		if status != 0 || !strings.Contains(stdout, `"description":"Build"`) || !strings.Contains(stdout, name+" (") || strings.Contains(stdout, "--full") {
			t.Errorf("status %d: %s\n%s", status, stdout, stderr)
		}
	}
}
