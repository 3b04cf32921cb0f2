package main

import (
	"encoding/json"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestQuestionsAreListedWithWhatCanBeAnswered(t *testing.T) {
	env := play(t, &played{pid: 11})
	status, stdout, stderr := (&call{env: env}).run(t, "approvals", "list")
	if status != 0 || stderr != "" {
		t.Fatalf("status %d: %s", status, stderr)
	}
	golden(t, "approvals-list.txt", stdout)

	status, stdout, _ = (&call{env: env}).run(t, "approvals", "list", "--json", "--session", "s1")
	var list []struct {
		ID         string
		Supervisor int
		Permission struct{ Title string }
	}
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || status != 0 {
		t.Fatalf("status %d, %v: %s", status, err, stdout)
	}
	if len(list) != 1 || list[0].ID != "gemini-1/7" || list[0].Supervisor != 11 || !strings.Contains(list[0].Permission.Title, "git push") {
		t.Errorf("the list is %+v", list)
	}
	if strings.ContainsAny(stdout, "\x1b\x07") {
		t.Errorf("what an agent says moves the terminal: %q", stdout)
	}
}

func TestAnAnswerGoesToWhoHasTheQuestion(t *testing.T) {
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
			p := &played{pid: 11}
			status, stdout, stderr := (&call{env: play(t, p)}).run(t, append([]string{"approvals", "answer"}, c.args...)...)
			if status != 0 || stdout != c.want {
				t.Fatalf("status %d, %q, want %q: %s", status, stdout, c.want, stderr)
			}
			if !c.is(p.answered) || p.answered.GetAnsweredBy() != "cli" {
				t.Errorf("the supervisor was told %v", p.answered)
			}
		})
	}
}

func TestAnAnswerThatComesLateSaysWhoWasFirst(t *testing.T) {
	status, _, stderr := (&call{env: play(t, &played{pid: 11})}).run(t, "approvals", "answer", "gemini-1/7", "late")
	if status != 1 || stderr != "acphost: the question gemini-1/7 does not wait any more (denied by front)\n" {
		t.Errorf("status %d: %s", status, stderr)
	}
}

func TestAnAnswerTakesOneAnswer(t *testing.T) {
	env := play(t, &played{pid: 11}, &played{pid: 12})
	for want, args := range map[string][]string{
		"expected a question's id":             {},
		"expected one answer":                  {"gemini-1/7"},
		"expected one answer: ":                {"gemini-1/7", "yes", "--decline"},
		"2 supervisors have a question gemini": {"gemini-1/7", "yes"},
		"no question other/1 waits":            {"other/1", "yes"},
		"no supervisor runs as process 13":     {"gemini-1/7", "yes", "--pid", "13"},
	} {
		if status, _, stderr := (&call{env: env}).run(t, append([]string{"approvals", "answer"}, args...)...); status == 0 || !strings.Contains(stderr, want) {
			t.Errorf("%q: status %d, %q; want %q", args, status, stderr, want)
		}
	}
	if status, stdout, stderr := (&call{env: env}).run(t, "approvals", "answer", "gemini-1/7", "yes", "--pid", "12"); status != 0 || stdout == "" {
		t.Errorf("of the one that is meant: %d, %s", status, stderr)
	}
}

func TestQuestionsAndOptionsAreCompleted(t *testing.T) {
	env := play(t, &played{pid: 11})
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"approvals", "answer", ""}, "gemini-1/8\tWhich branch?\n"},
		{[]string{"approvals", "answer", "gemini-1/7", ""}, "yes\tAllow\n"},
		{[]string{"agents", "stop", ""}, "gemini-1\t/opt/gemini --acp\n"},
		{[]string{"terminals", "tail", ""}, "acphost-2e\tfalse\n"},
		{[]string{"certs", "client", "x", "me:"}, "me:approver\n"},
	} {
		if status, stdout, _ := (&call{env: env}).run(t, append([]string{"__complete"}, c.args...)...); status != 0 || !strings.Contains(stdout, c.want) {
			t.Errorf("%q is completed with %q, want %q (%d)", c.args, stdout, c.want, status)
		}
	}
}
