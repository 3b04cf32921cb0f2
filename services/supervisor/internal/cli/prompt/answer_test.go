package prompt

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestPrintFinal_PrintsLastMessage(t *testing.T) {
	for name, c := range map[string]struct {
		events []*supervisorv1.Event
		want   string
	}{
		"a turn without tools":                  {[]*supervisorv1.Event{agentMessage("One, "), agentMessage("two.")}, "One, two.\n"},
		"after the last tool call":              {[]*supervisorv1.Event{agentMessage("I look."), calls("t", "Read", "completed"), agentMessage("It is "), agentMessage("42.")}, "It is 42.\n"},
		"before it, if no text follows":         {[]*supervisorv1.Event{agentMessage("It is 42."), calls("t", "Clean up", "completed")}, "It is 42.\n"},
		"before it, if a blank follows":         {[]*supervisorv1.Event{agentMessage("It is 42."), calls("t", "Clean up", "completed"), agentMessage("\n")}, "It is 42.\n"},
		"without repeated text":                 {[]*supervisorv1.Event{{History: true, Event: agentMessage("Old.").Event}, agentMessage("New.")}, "New.\n"},
		"with nothing that a terminal obeys":    {[]*supervisorv1.Event{agentMessage("\x1b[2Jno")}, "\\u{1b}[2Jno\n"},
		"nothing":                               {nil, ""},
		"an update of a call begins no new one": {[]*supervisorv1.Event{agentMessage("It is "), reports("t", "completed"), agentMessage("42.")}, "It is 42.\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.prints = printFinal
			r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
				for _, ev := range c.events {
					send(ev)
				}
				send(turnEnded("end_turn"))
				return nil
			}
			r.begin(t)
			if s := r.wait(t); s != 0 || r.out.String() != c.want || r.errs.String() != "" {
				t.Errorf("status %d, printed %q, want %q; stderr %q", s, r.out.String(), c.want, r.errs.String())
			}
		})
	}
}

func TestPrintFinal_AsksQuestions(t *testing.T) {
	r := newRun(t, true)
	r.prints = printFinal
	r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
		send(agentMessage("I edit."))
		send(calls("t", "Edit", "pending"))
		send(&supervisorv1.Event{Event: &supervisorv1.Event_QuestionAsked{QuestionAsked: mayI("demo-1/1")}})
		select {
		case <-r.fake.Answered:
		case <-ctx.Done():
			return ctx.Err()
		}
		send(questionAnswered("demo-1/1", "denied"))
		send(agentMessage("I did not."))
		send(turnEnded("end_turn"))
		return nil
	}
	r.begin(t)
	r.board(t).press("r")
	if s := r.wait(t); s != 0 {
		t.Errorf("status %d, stderr %q", s, r.errs.String())
	}
	out := visible(r.out.String())
	if !strings.Contains(out, "The agent asks: Edit main.go") || !strings.HasSuffix(out, "I did not.\n") || strings.Contains(out, "I edit.") {
		t.Errorf("printed %q", out)
	}
}

func TestPrompt_NamesDeniedActions(t *testing.T) {
	write := func(path, rule, reason, by string) *supervisorv1.AuditRecord {
		return &supervisorv1.AuditRecord{Action: &permissionv1.Action{Kind: "fs.write", Paths: []*permissionv1.PathAccess{{Path: path, InsideRoots: true}}}, Rule: rule, Reason: reason, AnsweredBy: by}
	}
	for name, c := range map[string]struct {
		denied []*supervisorv1.AuditRecord
		fail   bool
		want   int
		stderr string
	}{
		"nothing, and it would fail": {nil, true, 0, ""},
		"by a rule": {[]*supervisorv1.AuditRecord{write("/w/.env", "secrets", "Secrets stay here.", "policy")}, false, 0,
			"acphost: 1 action denied: write /w/.env (rule secrets: Secrets stay here.)\n"},
		"by a rule, and it fails": {[]*supervisorv1.AuditRecord{write("/w/.env", "secrets", "", "policy")}, true, 8,
			"acphost: 1 action denied: write /w/.env (rule secrets)\n"},
		"by a rule without a reason": {[]*supervisorv1.AuditRecord{write("/w/.env", "secrets", "denied by rule secrets", "policy")}, false, 0,
			"acphost: 1 action denied: write /w/.env (denied by rule secrets)\n"},
		"by a person": {[]*supervisorv1.AuditRecord{write("/w/a\x1b", "edits", "", "cli")}, false, 0,
			"acphost: 1 action denied: write /w/a\\u{1b} (answered by cli)\n"},
		"done, though the policy denies it, and it fails": {[]*supervisorv1.AuditRecord{func() *supervisorv1.AuditRecord {
			rec := write("/w/.env", "secrets", "", "nobody")
			rec.Outcome = "done, not asked"
			return rec
		}()}, true, 8, "acphost: the agent reports that it did what the policy denies, without asking: write /w/.env (rule secrets)\n"},
		"by nobody, according to the question's end": {[]*supervisorv1.AuditRecord{write("/w/a", "edits", "", "nobody")}, true, 0, ""},
		"more than are named": {func() (all []*supervisorv1.AuditRecord) {
			for range maxNamed + 3 {
				all = append(all, write("/w/x", "r", "", "policy"))
			}
			return all
		}(), true, 8, "acphost: 11 actions denied: " + strings.Repeat("write /w/x (rule r); ", maxNamed) + "and 3 more: see \"acphost audit tail\"\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			r.failOnDenied = c.fail
			r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error {
				for _, rec := range c.denied {
					r.denials.add(rec)
				}
				send(turnEnded("end_turn"))
				return nil
			}
			r.begin(t)
			if s := r.wait(t); s != c.want || r.errs.String() != c.stderr {
				t.Errorf("status %d, want %d; stderr %q, want %q", s, c.want, r.errs.String(), c.stderr)
			}
		})
	}
}

func TestPrompt_TimeoutCancelsTurn(t *testing.T) {
	for name, c := range map[string]struct {
		end  *supervisorv1.Event
		want int
	}{
		"and reports it":               {turnEnded("cancelled"), 124},
		"and ends by itself meanwhile": {turnEnded("end_turn"), 0},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, false)
			late := make(chan time.Time, 1)
			r.timeout, r.timedOut = time.Minute, late
			r.fake.Turn = func(ctx context.Context, send func(*supervisorv1.Event)) error {
				send(agentMessage("I work.\n"))
				testkit.Eventually(t, "the turn is shown", func() bool { return strings.Contains(r.out.String(), "I work.") })
				late <- time.Now()
				select {
				case <-r.fake.Cancelled:
				case <-ctx.Done():
					return ctx.Err()
				}
				send(c.end)
				return nil
			}
			r.begin(t)
			if s := r.wait(t); s != c.want || !strings.Contains(r.errs.String(), "(--timeout): it is being cancelled\n") {
				t.Errorf("status %d, want %d; stderr %q", s, c.want, r.errs.String())
			}
		})
	}
}

func TestPrompt_ContinueOpensNewestSession(t *testing.T) {
	r := newRun(t, false)
	r.fake.Can = &supervisorv1.AgentCapabilities{ResumeSession: true}
	r.newest = func(string) (string, error) { return "s-newest", nil }
	r.fake.Turn = func(_ context.Context, send func(*supervisorv1.Event)) error { send(turnEnded("end_turn")); return nil }
	r.begin(t)
	if s := r.wait(t); s != 0 || !strings.Contains(strings.Join(r.fake.Calls, " "), "s-newest") {
		t.Errorf("status %d, calls %v, stderr %q", s, r.fake.Calls, r.errs.String())
	}
	r = newRun(t, false)
	r.newest = func(string) (string, error) { return "", errors.New("there is none") }
	r.begin(t)
	if s := r.wait(t); s != 1 || r.errs.String() != "acphost: there is none\n" {
		t.Errorf("status %d, stderr %q", s, r.errs.String())
	}
}

func TestStatusLine_ShowsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var g progress
		if line := g.line(time.Now()); line != "" {
			t.Errorf("before anything begins: %q", line)
		}
		g.begin("starting claude")
		for _, step := range []struct {
			after time.Duration
			ev    *supervisorv1.Event
			want  string
		}{
			{500 * time.Millisecond, nil, ""},
			{time.Second, nil, "starting claude, 1 s"},
			{0, agentMessage("Hm."), ""},
			{12 * time.Second, nil, "waiting for the model, 12 s"},
			{0, calls("t", "npm test", "in_progress"), ""},
			{3 * time.Second, nil, "running: npm test, 3 s"},
			{0, reports("t", "in_progress"), ""},
			{2 * time.Second, nil, "running: npm test, 5 s"},
			{0, reports("t", "completed"), ""},
			{time.Second, nil, "waiting for the model, 1 s"},
		} {
			time.Sleep(step.after) // in a bubble: no time passes outside
			if step.ev != nil {
				g.event(step.ev)
			}
			if line := g.line(time.Now()); line != step.want {
				t.Errorf("got %q, want %q", line, step.want)
			}
		}
	})
}

func TestStatusLine_ClearsForOutput(t *testing.T) {
	var out strings.Builder
	s := &screen{out: &out}
	s.print("whole\n")
	s.status("busy")
	s.print("half")
	s.status("hidden") // behind half a line
	s.print(" a line\n")
	s.status("busy again")
	s.ask("y or n?")
	s.status("hidden") // while something is asked
	s.ask("")
	s.clear()
	want := "whole\nbusy\r\x1b[Khalf a line\nbusy again\r\x1b[Ky or n?\r\x1b[K"
	if out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
}
