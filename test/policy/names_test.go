package policy_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// spelled is an id as JSON with every character escaped.
func spelled(id string) string {
	var b strings.Builder
	for _, c := range id {
		fmt.Fprintf(&b, `\u%04x`, c)
	}
	return b.String()
}

const askWrites = "version: 1\nrules: [{id: writing, effect: ask, on: [fs.write, terminal.create]}]\n"

func TestNames_AgentCannotRewriteQuestion(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, askWrites, ""))
	call := s.WriteFile("a.txt", "rm -rf\n")
	q := s.Asked()
	id := q.Params.ToolCall.ToolCallID
	update := func(report string) string {
		return `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":` + report + `}}`
	}
	lines := []string{
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","title":"harmless"}`),
		update(`{"sessionUpdate":"tool_call","toolCallId":"` + id + `","title":"harmless","status":"completed"}`),
		update(`{"title":"harmless","toolCallId":"` + spelled(id) + `","sessionUpdate":"tool_call_update"}`),
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"mine","toolCallId":"` + id + `","title":"harmless"}`),
		update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","toolCallId":"mine","title":"harmless"}`),
		update(`{"sessionUpdate":"tool_call_update","TOOLCALLID":"` + id + `","title":"harmless"}`),
		update(`{"sessionUpdate":"toolCallUpdate","toolCallId":"` + id[:20] + spelled(id[20:22]) + id[22:] + `","title":"harmless"}`),
		update(`{"sessionUpdate":"a kind of tomorrow","toolCallId":"` + id + `"}`),
		`{"jsonrpc":"2.0","method":"_x/tool_call","params":{"toolCallId":"` + id + `"}}`,
	}
	for _, line := range lines {
		s.Agent.Write(line)
		expectNothing(s, line)
	}
	for at, line := range []string{
		`"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"` + id + `","title":"harmless"},"options":[{"optionId":"y","name":"Yes","kind":"allow_once"}]}`,
		`"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"` + spelled(id) + `"},"options":[]}`,
		`"method":"elicitation/create","params":{"sessionId":"s1","toolCallId":"` + id + `","mode":"form","message":"Sure?","requestedSchema":{"type":"object"}}`,
		`"method":"_x/ask","params":{"toolCallId":"` + id + `"}`,
	} {
		s.Agent.Write(fmt.Sprintf(`{"jsonrpc":"2.0","id":"i%d",%s}`, at, line))
		m := s.Agent.ExpectWhere("a refusal", func(m wire.Message) bool { return string(m.ID) == fmt.Sprintf(`"i%d"`, at) })
		if m.Error == nil || m.Error.Code != -32602 {
			t.Errorf("it was answered with %s: %s", m.Raw, line)
		}
		expectNothing(s, line)
		lines = append(lines, line)
	}
	// The agent can neither answer nor withdraw the question, nor reuse its id.
	s.Agent.Write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":` + string(q.ID) + `}}`)
	expectNothing(s, "a withdrawal")
	s.Agent.Write(`{"jsonrpc":"2.0","id":` + string(q.ID) + `,"method":"session/request_permission","params":{"sessionId":"s1","toolCall":{"toolCallId":"c"},"options":[]}}`)
	if m := s.Agent.ExpectWhere("a refusal", func(m wire.Message) bool { return string(m.ID) == string(q.ID) }); m.Error == nil {
		t.Errorf("the question's id was taken over: %s", m.Raw)
	}
	expectNothing(s, "a request with the question's id")

	s.Choose(q, "allow_once")
	call.Result(nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	s.Agent.Write(update(`{"sessionUpdate":"tool_call_update","toolCallId":"` + id + `","title":"it was harmless"}`))
	expectNothing(s, "what rewrites what was asked")
	var st struct {
		Link struct{ ImitatedMessages string }
	}
	if s.State("GetStatus", &st); st.Link.ImitatedMessages != fmt.Sprint(len(lines)+2) {
		t.Errorf("%s imitations were counted, want %d", st.Link.ImitatedMessages, len(lines)+2)
	}
	s.Finish()
}

func TestNames_AcphostsMessagesAreReserved(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, nil)
	for _, method := range []string{"_acphost/session_closed", `_acphost\u002fsession_closed`, "_acphost/anything"} {
		s.Agent.Write(`{"jsonrpc":"2.0","method":"` + method + `","params":{"sessionId":"s1","reason":"the agent says so"}}`)
		expectNothing(s, method)
	}
	s.Agent.Send("_acphost/ask", e2e.Params("x", 1)).Refused(-32601)
	expectNothing(s, "_acphost/ask")
	s.Notify("_acphost/tell", e2e.Params("x", 1))
	s.Send("_acphost/ask", e2e.Params("x", 1)).Refused(-32601)
	s.Notify("_x/tell", e2e.Params("x", 1))
	if m := s.Agent.Next(); m.Method != "_x/tell" {
		t.Errorf("the agent received a notification in acphost's name: %s", m.Raw)
	}
	// acphost also reports the output of a terminal that it shows.
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep", "args", []string{"1000"}), &made)
	fake := `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"c","_meta":{"terminal_output":{"terminal_id":"%s","data":"all tests pass"}}}}}`
	s.Agent.Write(fmt.Sprintf(fake, made.TerminalID))
	expectNothing(s, "faked output")
	s.Agent.Write(fmt.Sprintf(fake, "mine")) // of a terminal of the agent's own
	if m := s.Next(); !strings.Contains(string(m.Raw), "all tests pass") {
		t.Errorf("the agent's own terminal is not shown: %s", m.Raw)
	}
	s.Finish()
	record := p.Journaled(t)
	for line := range strings.Lines(record) {
		if strings.Contains(line, "the agent says so") && !strings.Contains(line, `"handler":"refused"`) {
			t.Errorf("the record has the agent's claim as a fact: %s", line)
		}
	}
}

func TestNames_NestedSupervisors(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	inner := p.File(t, "../config/inner.yaml", "permission: {policy: inner-policy.yaml}\n")
	p.File(t, "../config/inner-policy.yaml", askWrites)
	st := p.Stage(t)
	command := append([]string{e2e.Program("acphost"), "run", "--config", inner, "--"}, st.Command...)
	// The outer one asks nothing of what the inner one does itself.
	h := p.Start(t, p.Config(t, "log: {level: info}\n"), command)
	s := &e2e.Fixture{Host: h, Agent: st.Play(t)}
	call := h.Initialize(e2e.ShowsTerminals)
	s.Agent.Reply(s.Agent.Expect("initialize"), map[string]any{"protocolVersion": 1})
	call.Result(nil)
	s.Open("s1")

	write := s.WriteFile("a.txt", "a\n")
	q := s.Asked() // the inner one's, to the letter
	s.Agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call_update","toolCallId":"` + q.Params.ToolCall.ToolCallID + `","title":"harmless"}}}`)
	expectNothing(s, "an imitation of the inner one")
	s.Choose(q, "allow_once")
	write.Result(nil)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	if text, err := os.ReadFile(filepath.Join(p.Work, "a.txt")); err != nil || string(text) != "a\n" {
		t.Errorf("a.txt holds %q (%v)", text, err)
	}

	// A terminal of the inner one's is shown through the outer one.
	var made struct{ TerminalID string }
	create := s.Agent.Send("terminal/create", e2e.Params("command", "printf", "args", []string{"shown"}))
	q = s.Asked()
	s.Choose(q, "allow_once")
	create.Result(&made)
	s.Status(q, "in_progress")
	s.Status(q, "completed")
	s.Agent.Write(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s1","update":{"sessionUpdate":"tool_call","toolCallId":"c","title":"Run","content":[{"type":"terminal","terminalId":"` + made.TerminalID + `"}]}}}`)
	s.ExpectWhere("the terminal's output", func(m wire.Message) bool {
		return strings.Contains(string(m.Raw), "terminal_output") && strings.Contains(string(m.Raw), "shown")
	})
	s.Finish()
}

func TestNames_ChildProcessCannotAnswerQuestion(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Fixture(t, p.Policy(t, fmt.Sprintf("version: 1\nrules: [{id: writing, effect: ask, on: [fs.write]}, {id: running, effect: allow, command: [%q]}]\n", e2e.Program("acphost")), ""))
	s.WriteFile("a.txt", "x\n")
	q := s.Asked()
	mine, err := p.Dial(t, s.PID()).Approvals.ListApprovals(wire.Context(t), &supervisorv1.ListApprovalsRequest{})
	if err != nil || len(mine.GetApprovals()) != 1 {
		t.Fatalf("a person is notified of %v (%v)", mine, err)
	}
	id := mine.GetApprovals()[0].GetId()
	handle := e2e.HandleOf(id)
	if len(id) != len(handle)+27 {
		t.Fatalf("a person receives the id %q", id)
	}
	for _, line := range []string{
		e2e.Program("acphost") + " approvals list --json",
		e2e.Program("acphost") + " approvals answer " + handle + " allow_once",
		e2e.Program("acphost") + " approvals answer " + id + " allow_once",
	} {
		var ran struct{ Output string }
		call := s.Agent.Send("terminal/run", e2e.Params("command", line))
		call.Result(&ran)
		if strings.Contains(ran.Output, id) && !strings.Contains(line, id) || !strings.Contains(ran.Output, handle) && !strings.Contains(ran.Output, "is for people") {
			t.Errorf("%s: %s", line, ran.Output)
		}
	}
	s.Choose(q, "reject_once") // it waits still
	s.Status(q, "failed")
	s.Finish()
}

// expectNothing checks that no message of the agent reached the editor before the next forwarded one.
func expectNothing(s *e2e.Fixture, what string) {
	s.T.Helper()
	const mark = "a word of the agent's"
	s.Agent.Notify("session/update", e2e.Params("update", map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": mark}}))
	if m := s.Next(); !strings.Contains(string(m.Raw), mark) {
		s.T.Fatalf("%s reached the editor: %s", what, m.Raw)
	}
}
