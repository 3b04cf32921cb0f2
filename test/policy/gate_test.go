package policy_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestGate_DeniesCallsWithoutRequest(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	refused := s.WriteFile(".env", "KEY=1").Refused(-32603)
	e2e.ExpectContains(t, "the agent's error", refused.Message, "Secrets stay where they are", "rule secrets")
	update := s.Expect("session/update")
	e2e.ExpectContains(t, "the question", string(update.Raw), "agent_message_chunk", "denied", "Secrets stay where they are")
	if _, err := os.Stat(p.Path(".env")); err == nil {
		t.Error("the file was written all the same")
	}
	got := lastDecision(t, p)
	if got.Door != "call" || got.Verdict != "deny" || got.Outcome != "denied" || got.Rule != "secrets" || got.AnsweredBy != "policy" ||
		got.Action.Kind != "fs.write" || got.Agent == "" || got.PolicyDigest == "" || !strings.HasPrefix(got.Plugin, "permd ") {
		t.Errorf("the audit has %+v", got)
	}
	p.File(t, "notes.txt", "hello\n")
	if got := e2e.Content(s.Read("notes.txt")); got != "hello\n" {
		t.Errorf("reading is free, and gave %q", got)
	}
	s.Agent.Send("terminal/create", e2e.Params("command", "cat <.env")).Refused(-32603)
	s.Expect("session/update")
	s.Finish()
}

func TestGate_DenialNotice(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{"session":{"notices":{}}}`, p.Policy(t, e2e.GateRules, ""), nil)
	s.WriteFile(".env", "KEY=1").Refused(-32603)
	update := s.Expect("session/update")
	e2e.ExpectContains(t, "the notice", string(update.Raw), `"sessionUpdate":"notice"`, `"severity":"warning"`, `"title":"`, "Secrets stay where they are")
	s.Finish()
}

func TestGate_AnsweredRequestIsNotAskedAgain(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	asked := s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options)
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := e2e.Chosen(t, asked); got != "yes" {
		t.Fatalf("the answer is %q", got)
	}
	s.WriteFile("a.txt", "b").Result(nil)
	if got := lastDecision(t, p); got.AnsweredBy != "earlier answer" || got.Outcome != "allowed" {
		t.Errorf("the audit has %+v", got)
	}
	if left := s.Waiting(); len(left) > 0 {
		t.Errorf("the editor was asked again: %s", left[0].Raw)
	}
	t.Run("but once", func(t *testing.T) {
		again := s.WriteFile("a.txt", "c")
		q := s.Asked()
		s.Choose(q, "reject_once")
		again.Refused(-32603)
		s.Status(q, "failed")
	})
	s.Finish()
}

func TestGate_WriteKeepsShownContent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	const old, kept = "\ufeffone\r\ntwo\r\n", "\ufeffone\r\nthree\r\n"
	p.File(t, "a.txt", old)
	wrote := s.WriteFile("a.txt", "one\nthree\n")
	q := s.Asked()
	if c := q.Params.ToolCall.Content[1]; c.OldText == nil || *c.OldText != old || c.NewText != kept {
		t.Errorf("the question shows %q", c.NewText)
	}
	s.Choose(q, "allow_once")
	wrote.Result(nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	e2e.ExpectFile(t, p.Path("a.txt"), kept)

	t.Run("a diff in the file's form covers a write without it", func(t *testing.T) {
		shown := map[string]any{"toolCallId": "e2", "kind": "edit", "content": []any{map[string]any{
			"type": "diff", "path": p.Path("a.txt"), "oldText": "three\r\n", "newText": "3\r\n4\r\n"}}}
		asked := s.Ask(shown, e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		e2e.Chosen(t, asked)
		s.WriteFile("a.txt", "one\n3\n4\n").Result(nil)
		e2e.ExpectFile(t, p.Path("a.txt"), "\ufeffone\r\n3\r\n4\r\n")
	})
	t.Run("a diff in another form does not", func(t *testing.T) {
		shown := map[string]any{"toolCallId": "e3", "kind": "edit", "content": []any{map[string]any{
			"type": "diff", "path": p.Path("a.txt"), "oldText": "4", "newText": "4\n5"}}}
		asked := s.Ask(shown, e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		e2e.Chosen(t, asked)
		wrote := s.WriteFile("a.txt", "\ufeffone\r\n3\r\n4\n5\r\n")
		q := s.Asked()
		if c := q.Params.ToolCall.Content[1]; c.NewText != "\ufeffone\r\n3\r\n4\r\n5\r\n" {
			t.Errorf("the question shows %q", c.NewText)
		}
		s.Choose(q, "reject_once")
		wrote.Refused(-32603)
		s.Status(q, "failed")
	})
	s.Finish()
}

func TestGate_CallDiffersFromRequest(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	if err := os.Mkdir(p.Path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		ask    map[string]any
		method string
		does   map[string]any
	}{
		{"other content", e2e.Edit(p.Path("a.txt")), "fs/write_text_file", e2e.Params("path", p.Path("a.txt"), "content", "x")},
		{"a file that was named and not shown", map[string]any{"toolCallId": "n", "kind": "edit", "content": e2e.Edit(p.Path("a.txt"))["content"],
			"locations": []any{map[string]any{"path": p.Path("ci.yml")}}}, "fs/write_text_file", e2e.Params("path", p.Path("ci.yml"), "content", "b")},
		{"another file", e2e.Edit(p.Path("a.txt")), "fs/write_text_file", e2e.Params("path", p.Path("b.txt"), "content", "x")},
		{"another command", e2e.Command("make test"), "terminal/create", e2e.Params("command", "make install")},
		{"more of a command", e2e.Command("make test"), "terminal/create", e2e.Params("command", "make test; make install")},
		{"the same elsewhere", e2e.Command("make test"), "terminal/create", e2e.Params("command", "make test", "cwd", p.Path("sub"))},
		{"the same with an environment that changes it", e2e.Command("make test"), "terminal/create",
			e2e.Params("command", "make test", "env", []any{map[string]any{"name": "PATH", "value": "/tmp"}})},
		{"a write for a read", map[string]any{"toolCallId": "r", "kind": "read", "locations": []any{map[string]any{"path": p.Path("c.txt")}}},
			"fs/write_text_file", e2e.Params("path", p.Path("c.txt"), "content", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := s.Ask(c.ask, e2e.Options)
			s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			if got := e2e.Chosen(t, asked); got != "yes" {
				t.Fatalf("the answer is %q", got)
			}
			does := s.Agent.Send(c.method, c.does)
			q := s.Asked()
			s.Choose(q, "reject_once")
			does.Refused(-32603)
			s.Status(q, "failed")
		})
	}
	s.Finish()
}

func TestGate_QuestionDescribesCall(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	t.Run("a write", func(t *testing.T) {
		p.File(t, "a.txt", "old\n")
		write := s.WriteFile("a.txt", "new\n")
		q := s.Asked()
		call := q.Params.ToolCall
		if call.Kind != "edit" || call.Title != "write a.txt" || len(call.Content) != 2 || call.Content[1].Type != "diff" ||
			call.Content[1].OldText == nil || *call.Content[1].OldText != "old\n" || call.Content[1].NewText != "new\n" {
			t.Errorf("the question does not begin with the action and the reason, or does not show the change: %s", q.Raw)
		}
		if len(q.ID) < 24 || q.ID[0] != '"' {
			t.Errorf("the question's id could be guessed: %s", q.ID)
		}
		for _, kind := range []string{"allow_once", "allow_always", "reject_once", "reject_always"} {
			if optionOf(q, kind) == "" {
				t.Errorf("no option %s is offered: %s", kind, q.Raw)
			}
		}
		e2e.ExpectContains(t, "allow once", optionOf(q, "allow_once"), "write a.txt")
		e2e.ExpectContains(t, "allow always", optionOf(q, "allow_always"), "a.txt")
		s.Choose(q, "allow_once")
		write.Result(nil)
		s.Status(q, "in_progress")
		s.Status(q, "completed")
		if got, _ := os.ReadFile(p.Path("a.txt")); string(got) != "new\n" {
			t.Errorf("the file holds %q", got)
		}
		if got := lastDecision(t, p); got.AnsweredBy != "front" || got.Option != "allow_once" || got.Verdict != "ask" || got.Outcome != "allowed" {
			t.Errorf("the audit has %+v", got)
		}
	})
	t.Run("a command, and never permanently where the policy forbids it", func(t *testing.T) {
		run := s.Agent.Send("terminal/create", e2e.Params("command", "git push origin main"))
		q := s.Asked()
		e2e.ExpectContains(t, "the title", q.Params.ToolCall.Title, "git push origin main")
		e2e.ExpectContains(t, "the question", string(q.Raw), "Pushing is public")
		if optionOf(q, "allow_always") != "" {
			t.Errorf("a rule that is not grantable offers %q", optionOf(q, "allow_always"))
		}
		s.Choose(q, "reject_once")
		e2e.ExpectContains(t, "the agent's error", run.Refused(-32603).Message, "the user rejected this")
		s.Status(q, "failed")
	})
	t.Run("always, within the answer's scope", func(t *testing.T) {
		run := s.Agent.Send("terminal/create", e2e.Params("command", "date -u"))
		q := s.Asked()
		s.Choose(q, "allow_always")
		run.Result(nil)
		s.Status(q, "in_progress")
		s.Status(q, "completed")
		s.Agent.Request("terminal/create", e2e.Params("command", "date -u"), nil)
		got := lastDecision(t, p)
		if got.AnsweredBy != "grant" || len(got.Grants) != 1 {
			t.Errorf("the audit has %+v", got)
		}
		other := s.Agent.Send("terminal/create", e2e.Params("command", "date -u; rm -rf x"))
		q = s.Asked()
		s.Choose(q, "reject_always")
		other.Refused(-32603)
		s.Status(q, "failed")
	})
	s.Finish()
}

func TestGate_QuestionEndsWithCall(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	withdrawn := func(q e2e.OwnQuestion) {
		t.Helper()
		m := s.Expect("$/cancel_request")
		e2e.ExpectContains(t, "the withdrawal", string(m.Raw), string(q.ID))
		s.Status(q, "failed")
	}
	t.Run("the agent gives the call up", func(t *testing.T) {
		write := s.WriteFile("a.txt", "x")
		q := s.Asked()
		s.Agent.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(write.ID())})
		write.Refused(-32800)
		withdrawn(q)
		s.Choose(q, "allow_once") // too late
	})
	t.Run("the turn is cancelled", func(t *testing.T) {
		write := s.WriteFile("b.txt", "x")
		q := s.Asked()
		s.Notify("session/cancel", e2e.Params())
		s.Agent.Expect("session/cancel")
		write.Refused(-32800)
		withdrawn(q)
		s.Choose(q, "allow_once")
	})
	t.Run("the editor cannot ask", func(t *testing.T) {
		write := s.WriteFile("c.txt", "x")
		q := s.Asked()
		s.Refuse(q.Message, &wire.Error{Code: -32601, Message: "no such dialog"})
		e2e.ExpectContains(t, "the agent's error", write.Refused(-32603).Message, "no such dialog")
		s.Status(q, "failed")
		s.Expect("session/update") // it is notified
	})
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if _, err := os.Stat(p.Path(name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	s.Finish()
}

func TestGate_ForgedAnswer(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	write := s.WriteFile("a.txt", "x")
	q := s.Asked()
	id := string(q.ID)
	s.Agent.Write(`{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`)
	s.Agent.Write(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[]}}`)
	refusal := s.Agent.ExpectWhere("a refusal", func(m wire.Message) bool { return m.Error != nil })
	e2e.ExpectContains(t, "the refusal", string(refusal.Raw), "-32600", "in flight already")
	s.Choose(q, "reject_once")
	write.Refused(-32603)
	if _, err := os.Stat(p.Path("a.txt")); err == nil {
		t.Error("the file was written")
	}
	s.Finish()
}

func TestGate_ReportsUnaskedActions(t *testing.T) {
	t.Parallel()
	report := func(s *e2e.Fixture, call map[string]any, status string) {
		call["sessionUpdate"], call["status"] = "tool_call", status
		s.Agent.Notify("session/update", e2e.Params("update", call))
		s.Expect("session/update")
	}
	t.Run("an action that the policy denies", func(t *testing.T) {
		p := e2e.NewPlace(t)
		s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
		report(s, e2e.Edit(p.Path(".env")), "completed")
		update := s.Expect("session/update")
		e2e.ExpectContains(t, "the question", string(update.Raw), "without asking", "Secrets stay where they are")
		got := lastDecision(t, p)
		if got.Door != "report" || got.Outcome != "done, not asked" || got.Verdict != "deny" || got.AnsweredBy != "nobody" {
			t.Errorf("the audit has %+v", got)
		}
		s.Finish()
	})
	t.Run("the turn ends where that is wanted", func(t *testing.T) {
		p := e2e.NewPlace(t)
		p.File(t, "../config/policy.yaml", e2e.GateRules)
		s := p.Fixture(t, p.Config(t, "permission: {policy: policy.yaml, on_unasked: cancel}\n"))
		report(s, e2e.Edit(p.Path(".env")), "completed")
		s.Agent.Expect("session/cancel")
		s.Finish()
	})
	t.Run("a rejected action that was done nevertheless", func(t *testing.T) {
		p := e2e.NewPlace(t)
		s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
		s.WriteFile(".env", "x").Refused(-32603)
		s.Expect("session/update")
		report(s, e2e.Edit(p.Path(".env")), "completed")
		update := s.Expect("session/update")
		e2e.ExpectContains(t, "the question", string(update.Raw), "refused")
		if got := lastDecision(t, p); got.Outcome != "refused, not prevented" {
			t.Errorf("the audit has %+v", got)
		}
		s.Finish()
	})
	t.Run("nothing that was decided already, failed, or is history", func(t *testing.T) {
		p := e2e.NewPlace(t)
		s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
		asked := s.Ask(e2e.Edit(p.Path("a.txt")), e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		e2e.Chosen(t, asked)
		report(s, e2e.Edit(p.Path("a.txt")), "completed")
		failed := e2e.Edit(p.Path(".env"))
		failed["toolCallId"] = "f"
		report(s, failed, "failed")

		load := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": s.Work, "mcpServers": []any{}})
		request := s.Agent.Expect("session/load")
		history := e2e.Edit(p.Path(".env"))
		history["sessionUpdate"], history["status"] = "tool_call", "completed"
		s.Agent.Notify("session/update", map[string]any{"sessionId": "old", "update": history})
		s.Expect("session/update")
		s.Agent.Reply(request, map[string]any{})
		load.Result(nil)

		if got := p.Decisions(t); len(got) != 1 {
			t.Errorf("the audit has %d decisions, want the one of the call: %+v", len(got), got)
		}
		s.Finish()
	})
}

func TestGate_Unattended(t *testing.T) {
	t.Parallel()
	for unattended, allowed := range map[string]bool{"deny": false, "allow": true} {
		t.Run(unattended, func(t *testing.T) {
			p := e2e.NewPlace(t)
			p.File(t, "../config/policy.yaml", e2e.GateRules+"unattended: "+unattended+"\n")
			s := p.Fixture(t, append(p.Config(t, "permission: {policy: policy.yaml, timeout_seconds: 1}\n"), "--unattended"))
			asked := s.Ask(e2e.Edit(p.Path("b.txt")), e2e.Options)
			s.Expect("session/request_permission")
			if got := e2e.Chosen(t, asked); (got == "yes") != allowed {
				t.Errorf("the agent's question was answered with %q", got)
			}
			write := s.WriteFile("a.txt", "x")
			s.Asked()
			if allowed {
				write.Result(nil)
			} else {
				e2e.ExpectContains(t, "the agent's error", write.Refused(-32603).Message, "no user")
			}
			if got := lastDecision(t, p); got.AnsweredBy != "timeout" {
				t.Errorf("the audit has %+v", got)
			}
			s.Finish()
		})
	}
}

func TestGate_DeniesIfRecordFails(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "a.txt", "text")
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	audit := filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl")
	if err := os.Remove(audit); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(audit, 0o700); err != nil {
		t.Fatal(err)
	}
	e2e.ExpectContains(t, "the agent's error", s.Read("a.txt").Refused(-32603).Message, "could not record it", "acphost/unrecorded")
	s.Finish()
}

func TestGate_EditorCalls(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.FixtureWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true}}`, append(p.Policy(t, e2e.GateRules, ""), "--fs=front"), nil)
	s.WriteFile(".env", "x").Refused(-32603)
	s.Expect("session/update")
	write := s.WriteFile("a.txt", "x")
	q := s.Asked()
	s.Choose(q, "allow_once")
	at := s.Expect("fs/write_text_file")
	s.Reply(at, map[string]any{})
	write.Result(nil)
	s.Finish()
}

func TestGate_WorkspaceRulesOnlyTighten(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, ".acphost/policy.yaml", `
version: 1
rules:
  - {id: here-too, effect: deny, path: ["**/*.key"], reason: Keys of this project.}
  - {id: everything, effect: allow, on: ["fs.*"], path: ["/**"]}
`)
	t.Run("without a policy of the user's", func(t *testing.T) {
		s := p.Fixture(t, p.Config(t, ""))
		e2e.ExpectContains(t, "the agent's error", s.WriteFile("a.key", "x").Refused(-32603).Message, "Keys of this project")
		s.Expect("session/update")
		s.WriteFile("a.txt", "x").Result(nil)
		s.Agent.Send("fs/write_text_file", e2e.Params("path", p.Path(".acphost/policy.yaml"), "content", "version: 1\n")).Refused(-32603)
		s.Finish()
	})
	t.Run("beside a policy of the user's", func(t *testing.T) {
		s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
		s.WriteFile("a.key", "x").Refused(-32603)
		s.Expect("session/update")
		write := s.WriteFile("a.txt", "x")
		q := s.Asked()
		s.Choose(q, "reject_once")
		write.Refused(-32603)
		s.Finish()
	})
}

// TestGate_MisleadingTitle: editors show the title of a request, and need not show its input.
func TestGate_MisleadingTitle(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, e2e.GateRules, ""))
	for _, c := range []struct {
		name  string
		call  map[string]any
		with  []any
		asked bool
	}{
		{"the title is the command", e2e.Command("touch shown"), []any{"command", "touch shown"}, false},
		{"the title is another command", map[string]any{"toolCallId": "l", "title": "ls", "kind": "execute",
			"rawInput": map[string]any{"command": "touch hidden"}}, []any{"command", "touch hidden"}, true},
		{"the variables are in the input alone", map[string]any{"toolCallId": "v", "title": "touch loaded", "kind": "execute",
			"rawInput": map[string]any{"command": "touch loaded", "env": map[string]any{"BASH_ENV": "x"}}},
			[]any{"command", "touch loaded", "env", []any{map[string]any{"name": "BASH_ENV", "value": "x"}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := s.Ask(c.call, e2e.Options)
			s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			if got := e2e.Chosen(t, ask); got != "yes" {
				t.Fatalf("the agent got %q", got)
			}
			run := s.Agent.Send("terminal/create", e2e.Params(c.with...))
			if !c.asked {
				run.Result(nil)
				return
			}
			q := s.Asked()
			s.Choose(q, "reject_once")
			run.Refused(-32603)
			s.Status(q, "failed")
		})
	}
	s.Finish()
}

// TestGate_SearchLeavesOutDeniedFiles: the agent's own search tool must not print the content that "cat .env" may not
// print.
func TestGate_SearchLeavesOutDeniedFiles(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	p.File(t, "sub/.env", "KEY=1\n")
	p.File(t, "src/main.go", "package main\n")
	s := p.Fixture(t, []string{"--policy", "workspace"})
	search := func(id string, input map[string]any) map[string]any {
		return map[string]any{"toolCallId": id, "title": "Grep", "kind": "search", "rawInput": input}
	}
	if got := e2e.Chosen(t, s.Ask(search("a", map[string]any{"pattern": "KEY", "path": p.Path("src")}), e2e.Options)); got != "yes" {
		t.Errorf("a search of a folder without secrets: %s", got)
	}
	for name, input := range map[string]map[string]any{
		"of the folder above it": {"pattern": "KEY", "path": p.Work},
		"by its name":            {"pattern": "KEY", "path": p.Work, "glob": ".env"},
	} {
		ask := s.Ask(search("b"+name, input), e2e.Options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		if got := e2e.Chosen(t, ask); got != "no" {
			t.Errorf("a search %s: %s", name, got)
		}
	}
	if got := e2e.Chosen(t, s.Ask(search("c", map[string]any{"pattern": "KEY", "path": p.Path("sub/.env")}), e2e.Options)); got != "no" {
		t.Errorf("a search of the secret: %s", got)
	}
	s.Finish()
}

// lastDecision is the newest line of the audit.
func lastDecision(t testing.TB, p *e2e.Place) e2e.Decision {
	t.Helper()
	all := p.Decisions(t)
	if len(all) == 0 {
		t.Fatal("the audit is empty")
	}
	return all[len(all)-1]
}

// optionOf is the name of an option on offer.
func optionOf(q e2e.OwnQuestion, kind string) string {
	for _, o := range q.Params.Options {
		if o.Kind == kind {
			return o.Name
		}
	}
	return ""
}
