package cli_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestServe_ManagedFromCommandLine(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "permission: {timeout_seconds: 60}\n"))
	pid := strconv.Itoa(s.PID())
	run := func(want int, args ...string) string {
		t.Helper()
		status, out, errs := p.Cli(t, args...)
		if status != want {
			t.Fatalf("acphost %q has the status %d, want %d:\n%s%s", args, status, want, out, errs)
		}
		return out + errs
	}
	agent, _, _ := strings.Cut(run(0, "agents", "start", "--pid", pid, "--cwd", p.Work, "--", e2e.Program("demoagent")), ":")
	if agent != "demoagent-1" {
		t.Fatalf("the agent is %q", agent)
	}
	e2e.ExpectContains(t, "started again", run(0, "agents", "start", "--pid", pid, "--cwd", p.Work, "--", e2e.Program("demoagent")), agent)
	id := s.Open(agent).GetSessionId()
	turn := s.Prompt(id, "ask")
	question := turn.Question()

	list := run(0, "approvals", "list", "--pid", pid)
	e2e.ExpectContains(t, "the list of questions", list, e2e.HandleOf(question.GetId())+" ", "Edit", "notes.md")
	e2e.ExpectContains(t, "the refusal", run(1, "approvals", "answer", "--pid", pid, e2e.HandleOf(question.GetId()), "perhaps"), "allow")
	run(0, "approvals", "answer", "--pid", pid, e2e.HandleOf(question.GetId()), "reject_once")
	answered := turn.Until("the answer", func(e *supervisorv1.Event) bool { return e.GetQuestionAnswered() != nil }).GetQuestionAnswered()
	if answered.GetAnsweredBy() != "cli" || answered.GetOptionId() != "reject" {
		t.Errorf("the question was answered with %v", answered)
	}
	turn.Stopped("end_turn")
	run(1, "approvals", "answer", "--pid", pid, question.GetId(), "allow_once")

	turn = s.Prompt(id, "tour")
	question = turn.Question()
	handle := e2e.HandleOf(question.GetId())
	e2e.ExpectContains(t, "the refusal of a part", run(1, "approvals", "answer", "--pid", pid, agent+"/", "yes"), "these wait:\n  ", "  "+handle+"  ")
	run(0, "approvals", "answer", "--pid", pid, handle, "yes")
	turn.Stopped("end_turn")

	turn = s.Prompt(id, "/run echo begun; sleep 600")
	turn.Until("the terminal is shown", func(e *supervisorv1.Event) bool { return len(e.GetToolCallUpdate().GetContent()) > 0 })
	e2e.ExpectContains(t, "the terminals", run(0, "terminals", "list", "--pid", pid), "echo begun; sleep 600")
	e2e.ExpectContains(t, "the files", run(0, "files", "--pid", pid), "tour.txt")
	e2e.ExpectContains(t, "the agents", run(0, "agents", "running", "--pid", pid), agent, "running", e2e.Program("demoagent"))
	e2e.ExpectContains(t, "the session goes on", run(0, "sessions", "list"), "live")
	e2e.ExpectContains(t, "the agent's end", run(0, "agents", "stop", "--pid", pid, agent), "stopped")
	testkit.Eventually(t, "the session has ended with its agent", func() bool { return strings.Contains(run(0, "sessions", "list"), "ended") })
	s.Finish()

	// Recorded sessions are available without the server.
	e2e.ExpectContains(t, "the list of sessions", run(0, "sessions", "list"), id[:8])
	e2e.ExpectContains(t, "the session", run(0, "sessions", "show", id), "Read tour.txt", "ask ok: reject")
	e2e.ExpectContains(t, "the session as a page", run(0, "sessions", "export", id, "--format", "html"), "<html", "Read tour.txt", "As older agents say it.")
	e2e.ExpectContains(t, "the session in Markdown", run(0, "sessions", "export", id), "Read tour.txt", "As older agents say it.")
	e2e.ExpectContains(t, "the session as it was recorded", run(0, "sessions", "export", id, "--format", "ndjson"), `"hologram"`, `"weather_update"`)
}
