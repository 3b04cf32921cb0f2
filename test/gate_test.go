package e2e_test

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// gateRules are strict at door two: reading is free, secrets are denied, everything else is asked.
const gateRules = `
version: 1
rules:
  - {id: secrets, effect: deny, path: ["**/.env"], reason: Secrets stay where they are.}
  - {id: reading, effect: allow, on: [fs.read, fs.list], path: ["${root}/**"]}
  - {id: looking, effect: allow, command: ["ls", "echo"]}
  - {id: pushing, effect: ask, command: ["git push"], not_grantable: true, reason: Pushing is public.}
`

// decision is a line of the audit, as far as tests look at it.
type decision struct {
	ID, Door, Verdict, Rule, Outcome, Option, Reason, Plugin, Agent string
	AnsweredBy                                                      string `json:"answered_by"`
	PolicyDigest                                                    string `json:"policy_digest"`
	SessionID                                                       string `json:"session_id"`
	Grants                                                          []string
	Reused                                                          bool
	Action                                                          struct {
		Kind  string
		Paths []struct{ Path string }
	}
}

// decisions reads the audit.
func (p *place) decisions(t testing.TB) []decision {
	t.Helper()
	f, err := os.Open(filepath.Join(p.home, ".local", "state", "acphost", "audit.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	var all []decision
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var d decision
		if err := json.Unmarshal(lines.Bytes(), &d); err != nil {
			t.Fatalf("the audit holds a line that is no JSON: %s", lines.Text())
		}
		all = append(all, d)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}

// lastDecision is the newest line of the audit.
func (p *place) lastDecision(t testing.TB) decision {
	t.Helper()
	all := p.decisions(t)
	if len(all) == 0 {
		t.Fatal("the audit is empty")
	}
	return all[len(all)-1]
}

// ownQuestion is a question that acphost asks the editor itself.
type ownQuestion struct {
	wire.Message
	Params struct {
		SessionID string
		ToolCall  struct {
			ToolCallID, Title, Kind, Status string
			Content                         []struct {
				Type, Path, NewText string
				OldText             *string
				Content             struct{ Text string }
			}
			Locations []struct{ Path string }
		}
		Options []struct{ OptionID, Kind, Name string }
	}
}

// asked expects a question of acphost's own, and the tool call that introduces it.
func (s *scene) asked() ownQuestion {
	s.t.Helper()
	call := s.Expect("session/update")
	var introduced struct {
		Update struct{ SessionUpdate, ToolCallID string }
	}
	call.Decode(s.t, &introduced)
	q := ownQuestion{Message: s.Expect("session/request_permission")}
	if err := json.Unmarshal(q.Message.Params, &q.Params); err != nil {
		s.t.Fatal(err)
	}
	if introduced.Update.SessionUpdate != "tool_call" || introduced.Update.ToolCallID != q.Params.ToolCall.ToolCallID {
		s.t.Fatalf("the question is about a tool call that was not shown before it:\n%s\n%s", call.Raw, q.Raw)
	}
	return q
}

// option is the name of an option on offer.
func (q ownQuestion) option(kind string) string {
	for _, o := range q.Params.Options {
		if o.Kind == kind {
			return o.Name
		}
	}
	return ""
}

// choose answers a question of acphost's own.
func (s *scene) choose(q ownQuestion, option string) {
	s.t.Helper()
	s.Reply(q.Message, map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": option}})
}

// status expects the tool call of a question to change.
func (s *scene) status(q ownQuestion, want string) {
	s.t.Helper()
	m := s.ExpectWhere("an update to "+want, func(m wire.Message) bool {
		return m.Method == "session/update" && strings.Contains(string(m.Raw), q.Params.ToolCall.ToolCallID)
	})
	if !strings.Contains(string(m.Raw), `"status":"`+want+`"`) {
		s.t.Fatalf("the tool call's status is not %q: %s", want, m.Raw)
	}
}

func TestAnAgentThatNeverAsksIsStoppedAtTheGate(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	refused := s.write(".env", "KEY=1").Refused(-32603)
	expectContains(t, "the agent's error", refused.Message, "Secrets stay where they are", "rule secrets")
	told := s.Expect("session/update")
	expectContains(t, "what the person is told", string(told.Raw), "agent_message_chunk", "denied", "Secrets stay where they are")
	if _, err := os.Stat(p.path(".env")); err == nil {
		t.Error("the file was written all the same")
	}
	got := p.lastDecision(t)
	if got.Door != "call" || got.Verdict != "deny" || got.Outcome != "denied" || got.Rule != "secrets" || got.AnsweredBy != "policy" ||
		got.Action.Kind != "fs.write" || got.Agent == "" || got.PolicyDigest == "" || !strings.HasPrefix(got.Plugin, "permd ") {
		t.Errorf("the audit says %+v", got)
	}
	p.file(t, "notes.txt", "hello\n")
	if got := content(s.read("notes.txt")); got != "hello\n" {
		t.Errorf("reading is free, and gave %q", got)
	}
	s.agent.Send("terminal/create", params("command", "cat <.env")).Refused(-32603)
	s.Expect("session/update")
	s.finish()
}

func TestADenialIsToldAsANoticeWhereTheEditorShowsThem(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.sceneWith(t, `{"session":{"notices":{}}}`, p.policy(t, gateRules, ""), nil)
	s.write(".env", "KEY=1").Refused(-32603)
	told := s.Expect("session/update")
	expectContains(t, "the notice", string(told.Raw), `"sessionUpdate":"notice"`, `"severity":"warning"`, `"title":"`, "Secrets stay where they are")
	s.finish()
}

func TestWhatWasAllowedWhenTheAgentAskedIsNotAskedTwice(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	asked := s.ask(edit(p.path("a.txt")), options)
	s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
	if got := chosen(t, asked); got != "yes" {
		t.Fatalf("the answer is %q", got)
	}
	s.write("a.txt", "b").Result(nil)
	if got := p.lastDecision(t); got.AnsweredBy != "earlier answer" || got.Outcome != "allowed" {
		t.Errorf("the audit says %+v", got)
	}
	if left := s.Waiting(); len(left) > 0 {
		t.Errorf("the editor was asked again: %s", left[0].Raw)
	}
	t.Run("but once", func(t *testing.T) {
		again := s.write("a.txt", "c")
		q := s.asked()
		s.choose(q, "reject_once")
		again.Refused(-32603)
		s.status(q, "failed")
	})
	s.finish()
}

func TestWhatIsShownOfAWriteIsWhatTheFileKeeps(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	const old, kept = "\ufeffone\r\ntwo\r\n", "\ufeffone\r\nthree\r\n"
	p.file(t, "a.txt", old)
	wrote := s.write("a.txt", "one\nthree\n")
	q := s.asked()
	if c := q.Params.ToolCall.Content[0]; c.OldText == nil || *c.OldText != old || c.NewText != kept {
		t.Errorf("the question shows %q", c.NewText)
	}
	s.choose(q, "allow_once")
	wrote.Result(nil)
	s.status(q, "in_progress")
	s.status(q, "completed")
	expectFile(t, p.path("a.txt"), kept)

	t.Run("a diff in the file's form covers a write without it", func(t *testing.T) {
		shown := map[string]any{"toolCallId": "e2", "kind": "edit", "content": []any{map[string]any{
			"type": "diff", "path": p.path("a.txt"), "oldText": "three\r\n", "newText": "3\r\n4\r\n"}}}
		asked := s.ask(shown, options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		chosen(t, asked)
		s.write("a.txt", "one\n3\n4\n").Result(nil)
		expectFile(t, p.path("a.txt"), "\ufeffone\r\n3\r\n4\r\n")
	})
	t.Run("a diff in another form does not", func(t *testing.T) {
		shown := map[string]any{"toolCallId": "e3", "kind": "edit", "content": []any{map[string]any{
			"type": "diff", "path": p.path("a.txt"), "oldText": "4", "newText": "4\n5"}}}
		asked := s.ask(shown, options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		chosen(t, asked)
		wrote := s.write("a.txt", "\ufeffone\r\n3\r\n4\n5\r\n")
		q := s.asked()
		if c := q.Params.ToolCall.Content[0]; c.NewText != "\ufeffone\r\n3\r\n4\r\n5\r\n" {
			t.Errorf("the question shows %q", c.NewText)
		}
		s.choose(q, "reject_once")
		wrote.Refused(-32603)
		s.status(q, "failed")
	})
	s.finish()
}

func TestAnAgentThatAsksForOneThingAndDoesAnotherIsStopped(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	if err := os.Mkdir(p.path("sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		ask    map[string]any
		method string
		does   map[string]any
	}{
		{"other content", edit(p.path("a.txt")), "fs/write_text_file", params("path", p.path("a.txt"), "content", "x")},
		{"a file that was named and not shown", map[string]any{"toolCallId": "n", "kind": "edit", "content": edit(p.path("a.txt"))["content"],
			"locations": []any{map[string]any{"path": p.path("ci.yml")}}}, "fs/write_text_file", params("path", p.path("ci.yml"), "content", "b")},
		{"another file", edit(p.path("a.txt")), "fs/write_text_file", params("path", p.path("b.txt"), "content", "x")},
		{"another command", command("make test"), "terminal/create", params("command", "make install")},
		{"more of a command", command("make test"), "terminal/create", params("command", "make test; make install")},
		{"the same elsewhere", command("make test"), "terminal/create", params("command", "make test", "cwd", p.path("sub"))},
		{"the same with an environment that changes it", command("make test"), "terminal/create",
			params("command", "make test", "env", []any{map[string]any{"name": "PATH", "value": "/tmp"}})},
		{"a write for a read", map[string]any{"toolCallId": "r", "kind": "read", "locations": []any{map[string]any{"path": p.path("c.txt")}}},
			"fs/write_text_file", params("path", p.path("c.txt"), "content", "x")},
	} {
		t.Run(c.name, func(t *testing.T) {
			asked := s.ask(c.ask, options)
			s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			if got := chosen(t, asked); got != "yes" {
				t.Fatalf("the answer is %q", got)
			}
			does := s.agent.Send(c.method, c.does)
			q := s.asked()
			s.choose(q, "reject_once")
			does.Refused(-32603)
			s.status(q, "failed")
		})
	}
	s.finish()
}

func TestAPersonIsAskedAboutACallInWordsThatSayWhatItDoes(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	t.Run("a write", func(t *testing.T) {
		p.file(t, "a.txt", "old\n")
		write := s.write("a.txt", "new\n")
		q := s.asked()
		call := q.Params.ToolCall
		if call.Kind != "edit" || !strings.Contains(call.Title, p.path("a.txt")) || len(call.Content) == 0 ||
			call.Content[0].Type != "diff" || call.Content[0].OldText == nil || *call.Content[0].OldText != "old\n" || call.Content[0].NewText != "new\n" {
			t.Errorf("the tool call does not show the change: %s", q.Raw)
		}
		if len(q.ID) < 24 || q.ID[0] != '"' {
			t.Errorf("the question's id could be guessed: %s", q.ID)
		}
		for _, kind := range []string{"allow_once", "allow_always", "reject_once", "reject_always"} {
			if q.option(kind) == "" {
				t.Errorf("no option %s is offered: %s", kind, q.Raw)
			}
		}
		expectContains(t, "allow once", q.option("allow_once"), p.path("a.txt"))
		expectContains(t, "allow always", q.option("allow_always"), "a.txt")
		s.choose(q, "allow_once")
		write.Result(nil)
		s.status(q, "in_progress")
		s.status(q, "completed")
		if got, _ := os.ReadFile(p.path("a.txt")); string(got) != "new\n" {
			t.Errorf("the file holds %q", got)
		}
		if got := p.lastDecision(t); got.AnsweredBy != "front" || got.Option != "allow_once" || got.Verdict != "ask" || got.Outcome != "allowed" {
			t.Errorf("the audit says %+v", got)
		}
	})
	t.Run("a command, and never for good where the policy says so", func(t *testing.T) {
		run := s.agent.Send("terminal/create", params("command", "git push origin main"))
		q := s.asked()
		expectContains(t, "the title", q.Params.ToolCall.Title, "git push origin main")
		expectContains(t, "the question", string(q.Raw), "Pushing is public")
		if q.option("allow_always") != "" {
			t.Errorf("a rule that is not grantable offers %q", q.option("allow_always"))
		}
		s.choose(q, "reject_once")
		expectContains(t, "the agent's error", run.Refused(-32603).Message, "a person refused it")
		s.status(q, "failed")
	})
	t.Run("always, as far as it was said", func(t *testing.T) {
		run := s.agent.Send("terminal/create", params("command", "date -u"))
		q := s.asked()
		s.choose(q, "allow_always")
		run.Result(nil)
		s.status(q, "in_progress")
		s.status(q, "completed")
		s.agent.Request("terminal/create", params("command", "date -u"), nil)
		got := p.lastDecision(t)
		if got.AnsweredBy != "grant" || len(got.Grants) != 1 {
			t.Errorf("the audit says %+v", got)
		}
		other := s.agent.Send("terminal/create", params("command", "date -u; rm -rf x"))
		q = s.asked()
		s.choose(q, "reject_always")
		other.Refused(-32603)
		s.status(q, "failed")
	})
	s.finish()
}

func TestAQuestionOfOursEndsWithTheCallItIsAbout(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	withdrawn := func(q ownQuestion) {
		t.Helper()
		m := s.Expect("$/cancel_request")
		expectContains(t, "the withdrawal", string(m.Raw), string(q.ID))
		s.status(q, "failed")
	}
	t.Run("the agent gives the call up", func(t *testing.T) {
		write := s.write("a.txt", "x")
		q := s.asked()
		s.agent.Notify("$/cancel_request", map[string]any{"requestId": json.RawMessage(write.ID())})
		write.Refused(-32800)
		withdrawn(q)
		s.choose(q, "allow_once") // too late
	})
	t.Run("the turn is cancelled", func(t *testing.T) {
		write := s.write("b.txt", "x")
		q := s.asked()
		s.Notify("session/cancel", params())
		s.agent.Expect("session/cancel")
		write.Refused(-32800)
		withdrawn(q)
		s.choose(q, "allow_once")
	})
	t.Run("the editor cannot ask", func(t *testing.T) {
		write := s.write("c.txt", "x")
		q := s.asked()
		s.Refuse(q.Message, &wire.Error{Code: -32601, Message: "no such dialog"})
		expectContains(t, "the agent's error", write.Refused(-32603).Message, "no such dialog")
		s.status(q, "failed")
		s.Expect("session/update") // it is told
	})
	for _, name := range []string{"a.txt", "b.txt", "c.txt"} {
		if _, err := os.Stat(p.path(name)); err == nil {
			t.Errorf("%s was written", name)
		}
	}
	s.finish()
}

func TestAnAgentThatForgesAnAnswerToOurQuestionGainsNothing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	write := s.write("a.txt", "x")
	q := s.asked()
	id := string(q.ID)
	s.agent.Write(`{"jsonrpc":"2.0","id":` + id + `,"result":{"outcome":{"outcome":"selected","optionId":"allow_once"}}}`)
	s.agent.Write(`{"jsonrpc":"2.0","id":` + id + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"t"},"options":[]}}`)
	refusal := s.agent.ExpectWhere("a refusal", func(m wire.Message) bool { return m.Error != nil })
	expectContains(t, "the refusal", string(refusal.Raw), "-32600", "in flight already")
	s.choose(q, "reject_once")
	write.Refused(-32603)
	if _, err := os.Stat(p.path("a.txt")); err == nil {
		t.Error("the file was written")
	}
	s.finish()
}

func TestWhatAnAgentDidWithoutAskingIsReported(t *testing.T) {
	t.Parallel()
	report := func(s *scene, call map[string]any, status string) {
		call["sessionUpdate"], call["status"] = "tool_call", status
		s.agent.Notify("session/update", params("update", call))
		s.Expect("session/update")
	}
	t.Run("what the policy denies", func(t *testing.T) {
		p := newPlace(t)
		s := p.scene(t, p.policy(t, gateRules, ""))
		report(s, edit(p.path(".env")), "completed")
		told := s.Expect("session/update")
		expectContains(t, "what the person is told", string(told.Raw), "without asking", "Secrets stay where they are")
		got := p.lastDecision(t)
		if got.Door != "report" || got.Outcome != "done, not asked" || got.Verdict != "deny" || got.AnsweredBy != "nobody" {
			t.Errorf("the audit says %+v", got)
		}
		s.finish()
	})
	t.Run("the turn ends where that is wanted", func(t *testing.T) {
		p := newPlace(t)
		p.file(t, "../config/policy.yaml", gateRules)
		s := p.scene(t, p.config(t, "permission: {policy: policy.yaml, on_unasked: cancel}\n"))
		report(s, edit(p.path(".env")), "completed")
		s.agent.Expect("session/cancel")
		s.finish()
	})
	t.Run("what was refused and done all the same", func(t *testing.T) {
		p := newPlace(t)
		s := p.scene(t, p.policy(t, gateRules, ""))
		s.write(".env", "x").Refused(-32603)
		s.Expect("session/update")
		report(s, edit(p.path(".env")), "completed")
		told := s.Expect("session/update")
		expectContains(t, "what the person is told", string(told.Raw), "refused")
		if got := p.lastDecision(t); got.Outcome != "refused, not prevented" {
			t.Errorf("the audit says %+v", got)
		}
		s.finish()
	})
	t.Run("nothing that passed a door, failed, or is history", func(t *testing.T) {
		p := newPlace(t)
		s := p.scene(t, p.policy(t, gateRules, ""))
		asked := s.ask(edit(p.path("a.txt")), options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
		chosen(t, asked)
		report(s, edit(p.path("a.txt")), "completed")
		failed := edit(p.path(".env"))
		failed["toolCallId"] = "f"
		report(s, failed, "failed")

		load := s.Send("session/load", map[string]any{"sessionId": "old", "cwd": s.work, "mcpServers": []any{}})
		request := s.agent.Expect("session/load")
		history := edit(p.path(".env"))
		history["sessionUpdate"], history["status"] = "tool_call", "completed"
		s.agent.Notify("session/update", map[string]any{"sessionId": "old", "update": history})
		s.Expect("session/update")
		s.agent.Reply(request, map[string]any{})
		load.Result(nil)

		if got := p.decisions(t); len(got) != 1 {
			t.Errorf("the audit has %d decisions, want the one at the door: %+v", len(got), got)
		}
		s.finish()
	})
}

func TestWhereNobodyIsThereThePolicySaysWhatCounts(t *testing.T) {
	t.Parallel()
	for unattended, allowed := range map[string]bool{"deny": false, "allow": true} {
		t.Run(unattended, func(t *testing.T) {
			p := newPlace(t)
			p.file(t, "../config/policy.yaml", gateRules+"unattended: "+unattended+"\n")
			s := p.scene(t, append(p.config(t, "permission: {policy: policy.yaml, timeout_seconds: 1}\n"), "--unattended"))
			asked := s.ask(edit(p.path("b.txt")), options)
			s.Expect("session/request_permission")
			if got := chosen(t, asked); (got == "yes") != allowed {
				t.Errorf("the agent's question was answered with %q", got)
			}
			write := s.write("a.txt", "x")
			s.asked()
			if allowed {
				write.Result(nil)
			} else {
				expectContains(t, "the agent's error", write.Refused(-32603).Message, "nobody answered")
			}
			if got := p.lastDecision(t); got.AnsweredBy != "timeout" {
				t.Errorf("the audit says %+v", got)
			}
			s.finish()
		})
	}
}

func TestWhatCannotBeRecordedIsNotDone(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "a.txt", "text")
	s := p.scene(t, p.policy(t, gateRules, ""))
	audit := filepath.Join(p.home, ".local", "state", "acphost", "audit.jsonl")
	if err := os.Remove(audit); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(audit, 0o700); err != nil {
		t.Fatal(err)
	}
	expectContains(t, "the agent's error", s.read("a.txt").Refused(-32603).Message, "could not be recorded", "acphost/unrecorded")
	s.finish()
}

func TestACallThatIsTheEditorsPassesTheGateToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.sceneWith(t, `{"fs":{"readTextFile":true,"writeTextFile":true}}`, append(p.policy(t, gateRules, ""), "--fs=front"), nil)
	s.write(".env", "x").Refused(-32603)
	s.Expect("session/update")
	write := s.write("a.txt", "x")
	q := s.asked()
	s.choose(q, "allow_once")
	at := s.Expect("fs/write_text_file")
	s.Reply(at, map[string]any{})
	write.Result(nil)
	s.finish()
}

func TestTheWorkspaceMayOnlyTighten(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, ".acphost/policy.yaml", `
version: 1
rules:
  - {id: here-too, effect: deny, path: ["**/*.key"], reason: Keys of this project.}
  - {id: everything, effect: allow, on: ["fs.*"], path: ["/**"]}
`)
	t.Run("without a policy of the user's", func(t *testing.T) {
		s := p.scene(t, p.config(t, ""))
		expectContains(t, "the agent's error", s.write("a.key", "x").Refused(-32603).Message, "Keys of this project")
		s.Expect("session/update")
		s.write("a.txt", "x").Result(nil)
		s.agent.Send("fs/write_text_file", params("path", p.path(".acphost/policy.yaml"), "content", "version: 1\n")).Refused(-32603)
		s.finish()
	})
	t.Run("beside a policy of the user's", func(t *testing.T) {
		s := p.scene(t, p.policy(t, gateRules, ""))
		s.write("a.key", "x").Refused(-32603)
		s.Expect("session/update")
		write := s.write("a.txt", "x")
		q := s.asked()
		s.choose(q, "reject_once")
		write.Refused(-32603)
		s.finish()
	})
}

// TestATitleThatLiesGetsNoCommandPastThePerson: editors show the title of a request, and need not show its input.
func TestATitleThatLiesGetsNoCommandPastThePerson(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.scene(t, p.policy(t, gateRules, ""))
	for _, c := range []struct {
		name  string
		call  map[string]any
		with  []any
		asked bool
	}{
		{"the title is the command", command("touch shown"), []any{"command", "touch shown"}, false},
		{"the title is another command", map[string]any{"toolCallId": "l", "title": "ls", "kind": "execute",
			"rawInput": map[string]any{"command": "touch hidden"}}, []any{"command", "touch hidden"}, true},
		{"the variables are in the input alone", map[string]any{"toolCallId": "v", "title": "touch loaded", "kind": "execute",
			"rawInput": map[string]any{"command": "touch loaded", "env": map[string]any{"BASH_ENV": "x"}}},
			[]any{"command", "touch loaded", "env", []any{map[string]any{"name": "BASH_ENV", "value": "x"}}}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			ask := s.ask(c.call, options)
			s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "yes"}})
			if got := chosen(t, ask); got != "yes" {
				t.Fatalf("the agent got %q", got)
			}
			run := s.agent.Send("terminal/create", params(c.with...))
			if !c.asked {
				run.Result(nil)
				return
			}
			q := s.asked()
			s.choose(q, "reject_once")
			run.Refused(-32603)
			s.status(q, "failed")
		})
	}
	s.finish()
}

// TestASearchDoesNotReadWhatThePolicyKeepsFromIt: the agent's own search tool prints what "cat .env" may not.
func TestASearchDoesNotReadWhatThePolicyKeepsFromIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.file(t, "sub/.env", "KEY=1\n")
	p.file(t, "src/main.go", "package main\n")
	s := p.scene(t, []string{"--policy", "workspace"})
	search := func(id string, input map[string]any) map[string]any {
		return map[string]any{"toolCallId": id, "title": "Grep", "kind": "search", "rawInput": input}
	}
	if got := chosen(t, s.ask(search("a", map[string]any{"pattern": "KEY", "path": p.path("src")}), options)); got != "yes" {
		t.Errorf("a search of a folder without secrets: %s", got)
	}
	for name, input := range map[string]map[string]any{
		"of the folder above it": {"pattern": "KEY", "path": p.work},
		"by its name":            {"pattern": "KEY", "path": p.work, "glob": ".env"},
	} {
		ask := s.ask(search("b"+name, input), options)
		s.Reply(s.Expect("session/request_permission"), map[string]any{"outcome": map[string]any{"outcome": "selected", "optionId": "no"}})
		if got := chosen(t, ask); got != "no" {
			t.Errorf("a search %s: %s", name, got)
		}
	}
	if got := chosen(t, s.ask(search("c", map[string]any{"pattern": "KEY", "path": p.path("sub/.env")}), options)); got != "no" {
		t.Errorf("a search of the secret: %s", got)
	}
	s.finish()
}
