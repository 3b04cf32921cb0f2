package e2e_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestAPersonLooksAfterAServerFromTheCommandLine(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, p.config(t, "permission: {timeout_seconds: 60}\n"))
	pid := strconv.Itoa(s.PID())
	run := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := p.cli(t, args...)
		if status != want {
			t.Fatalf("acphost %q has the status %d, want %d:\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	agent, _, _ := strings.Cut(run(0, "agents", "start", "--pid", pid, "--cwd", p.work, "--", program("demoagent")), ":")
	if agent != "demoagent-1" {
		t.Fatalf("the agent is %q", agent)
	}
	expectContains(t, "started again", run(0, "agents", "start", "--pid", pid, "--cwd", p.work, "--", program("demoagent")), agent)
	id := s.open(agent).GetSessionId()
	turn := s.prompt(id, "ask")
	question := turn.question()

	list := run(0, "approvals", "list", "--pid", pid)
	expectContains(t, "the list of questions", list, handleOf(question.GetId())+" ", "Edit", "notes.md")
	expectContains(t, "the refusal", run(1, "approvals", "answer", "--pid", pid, handleOf(question.GetId()), "perhaps"), "allow")
	run(0, "approvals", "answer", "--pid", pid, handleOf(question.GetId()), "reject_once")
	answered := turn.until("the answer", func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered() != nil }).GetQuestionAnswered()
	if answered.GetAnsweredBy() != "cli" || answered.GetOptionId() != "reject" {
		t.Errorf("the question was answered with %v", answered)
	}
	turn.stopped("end_turn")
	run(1, "approvals", "answer", "--pid", pid, question.GetId(), "allow_once")

	turn = s.prompt(id, "tour")
	question = turn.question()
	handle := handleOf(question.GetId())
	expectContains(t, "the refusal of a part", run(1, "approvals", "answer", "--pid", pid, agent+"/", "yes"), "these wait:\n  ", "  "+handle+"  ")
	run(0, "approvals", "answer", "--pid", pid, handle, "yes")
	turn.stopped("end_turn")

	turn = s.prompt(id, "/run echo begun; sleep 600")
	turn.until("the terminal is shown", func(e *supervisorv1.Event) bool { return len(e.GetToolCallUpdate().GetContent()) > 0 })
	expectContains(t, "the terminals", run(0, "terminals", "list", "--pid", pid), "echo begun; sleep 600")
	expectContains(t, "the files", run(0, "files", "--pid", pid), "tour.txt")
	expectContains(t, "the agents", run(0, "agents", "running", "--pid", pid), agent, "running", program("demoagent"))
	expectContains(t, "the session goes on", run(0, "sessions", "list"), "live")
	expectContains(t, "the agent's end", run(0, "agents", "stop", "--pid", pid, agent), "stopped")
	testkit.Eventually(t, "the session has ended with its agent", func() bool { return strings.Contains(run(0, "sessions", "list"), "ended") })
	s.finish()

	// What passed is there when the server is not.
	expectContains(t, "the list of sessions", run(0, "sessions", "list"), id[:8])
	expectContains(t, "the session", run(0, "sessions", "show", id), "Read tour.txt", "ask ok: reject")
	expectContains(t, "the session as a page", run(0, "sessions", "export", id, "--format", "html"), "<html", "Read tour.txt", "As older agents say it.")
	expectContains(t, "the session in Markdown", run(0, "sessions", "export", id), "Read tour.txt", "As older agents say it.")
	expectContains(t, "the session as it was recorded", run(0, "sessions", "export", id, "--format", "ndjson"), `"hologram"`, `"weather_update"`)
}
