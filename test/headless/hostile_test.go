package headless_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

func TestSessions_SameIDOfTwoAgents(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Serve(t, nil)
	type played struct {
		*supervisorv1.Agent
		*e2e.ScriptedAgent
	}
	var all []played
	for _, name := range []string{"one", "two"} {
		agent, actor := s.Plays(name)
		if err := s.Opens(agent, actor, "same"); err != nil {
			t.Fatal(e2e.Explain(err))
		}
		all = append(all, played{agent, actor})
	}
	for _, x := range all {
		turn := s.Prompts(x.Agent, "same")
		asked := x.ScriptedAgent.Expect("session/prompt")
		x.Update("same", e2e.Chunk("I am "+x.GetName()))
		x.ScriptedAgent.Reply(asked, map[string]any{"stopReason": "end_turn"})
		turn.Stopped("end_turn")
		if want := "I am " + x.GetName(); turn.Said() != want {
			t.Errorf("the agent sent %q, want %q", turn.Said(), want)
		}
	}
	if _, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: "same"}); err == nil {
		t.Error("an id that two agents have names a session")
	}
	// An agent that names a session of another agent sends nothing there.
	watching := s.Watch(&supervisorv1.WatchSessionRequest{AgentId: all[0].GetId(), SessionId: "same"})
	all[1].Update("same", e2e.Chunk("I am in the wrong place"))
	all[0].Update("same", e2e.Chunk("I am in the right one"))
	watching.Says("I am in the right one")
	if k := watching.Said(); strings.Contains(k, "wrong") || strings.Contains(k, "two") {
		t.Errorf("the session received %q", k)
	}
	// The same id twice from one agent would make two sessions one.
	if err := s.Opens(all[0].Agent, all[0].ScriptedAgent, "same"); err == nil {
		t.Error("an agent gave two sessions one id")
	}
	s.Finish()
}

func TestHostileAgent_UnexpectedMessages(t *testing.T) {
	t.Parallel()
	s := e2e.NewPlace(t).Serve(t, nil)
	agent, actor := s.Plays("strange")
	if err := s.Opens(agent, actor, "s"); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	actor.Update("nobody's", e2e.Chunk("of a session that there is not"))
	actor.Update("s", e2e.Chunk("before a turn"))
	turn := s.Prompts(agent, "s")
	asked := actor.Expect("session/prompt")
	for _, line := range []string{
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s"}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":null}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":17}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"plan","entries":"none"}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"tool_call","toolCallId":null,"content":[1,{"type":"diff"}],"locations":{}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"image","data":"no base64!","mimeType":3}}}}`,
		`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":-1,"size":1e400,"cost":"free"}}}`,
		`{"jsonrpc":"2.0","id":999,"result":{}}`,
		`{"jsonrpc":"2.0","method":"session/prompt","params":{}}`,
		`not JSON at all`,
	} {
		actor.Write(line)
	}
	actor.Update("s", e2e.Chunk("still here \u202e\x1b[31m"))
	actor.Reply(asked, map[string]any{"stopReason": "as it pleases"})
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"}) // once more
	end := turn.End()
	if end.GetStopReason() != "as it pleases" || end.GetError() != nil {
		t.Errorf("the turn ended with %v", end)
	}
	if !strings.Contains(turn.Said(), "still here \u202e\x1b[31m") {
		t.Errorf("the agent sent %q", turn.Said())
	}
	// Unknown updates are sent unchanged.
	raw := 0
	for _, e := range turn.Seen {
		if strings.Contains(e.GetRaw(), "no base64!") || strings.Contains(e.GetRaw(), `"entries":"none"`) || strings.Contains(e.GetRaw(), "1e400") {
			raw++
		}
	}
	if raw != 3 {
		t.Errorf("of 3 odd updates %d were sent:\n%s", raw, e2e.Listing(turn.Seen))
	}
	second := s.Prompts(agent, "s")
	actor.Reply(actor.Expect("session/prompt"), map[string]any{"stopReason": "end_turn"})
	second.Stopped("end_turn")
	s.Finish()
}

func TestQuestion_EndsWithAgentsRequest(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent, actor := s.Plays("asking")
	if err := s.Opens(agent, actor, "s"); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	ask := map[string]any{"sessionId": "s", "toolCall": map[string]any{"toolCallId": "t", "title": "May I?"}, "options": e2e.Options}

	// Withdrawn by the agent, under an id that is a string.
	turn := s.Prompts(agent, "s")
	asked := actor.Expect("session/prompt")
	question := actor.SendAs(`"q-1"`, "session/request_permission", ask)
	q := turn.Question()
	if want := agent.GetId() + "/q-1"; e2e.HandleOf(q.GetId()) != want {
		t.Errorf("the question is %q, want %q", e2e.HandleOf(q.GetId()), want)
	}
	actor.Write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q-1"}}`)
	if a := e2e.Ended(t, changes, q.GetId()); a.GetOutcome() != "withdrawn" {
		t.Errorf("the question that was withdrawn ended with %v", a)
	}
	question.Answer()
	_, err = s.Approvals.AnswerApproval(s.Ctx, e2e.Yes(q, "late"))
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a question that was withdrawn was answered: %v", err)
	}

	// Another question in its place, whose handle begins alike.
	question = actor.SendAs(`"q-1x"`, "session/request_permission", ask)
	other := turn.Question()
	code, _, stderr := p.Cli(t, "approvals", "answer", "--pid", strconv.Itoa(s.PID()), e2e.HandleOf(q.GetId()), "allow_once")
	if code != 1 || !strings.HasSuffix(stderr, "question "+e2e.HandleOf(q.GetId())+" does not wait any more: the agent withdrew it, or is gone\n") {
		t.Errorf("the answer to what was withdrawn has the status %d: %s", code, stderr)
	}
	if _, err := s.Approvals.AnswerApproval(s.Ctx, e2e.Yes(other, "grpc")); err != nil {
		t.Errorf("the question in its place cannot be answered: %v", err)
	}
	question.Answer()

	// Open while the turn ends: the agent waits for it still.
	question = actor.SendAs(`7`, "session/request_permission", ask)
	q = turn.Question()
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.Stopped("end_turn")
	if _, err := s.Approvals.AnswerApproval(s.Ctx, e2e.Yes(q, "late")); err != nil {
		t.Errorf("a question that its turn left behind cannot be answered: %v", e2e.Explain(err))
	}
	if got := e2e.Chosen(t, question); got != "yes" {
		t.Errorf("the agent received %q, want yes", got)
	}

	// A question without options, and an invalid one.
	turn = s.Prompts(agent, "s")
	asked = actor.Expect("session/prompt")
	actor.Send("session/request_permission", map[string]any{"sessionId": "s", "toolCall": map[string]any{"toolCallId": "t"}, "options": []any{}})
	q = turn.Question()
	if _, err := s.Approvals.AnswerApproval(s.Ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}); err != nil {
		t.Errorf("a question without options cannot be given up: %v", e2e.Explain(err))
	}
	actor.Send("session/request_permission", json.RawMessage(`{"sessionId":"s","toolCall":null,"options":"none"}`)).Answer()
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.Stopped("end_turn")
	s.Finish()
}

func TestPrompt_SlowReaderLosesNothing(t *testing.T) {
	t.Parallel()
	const pieces = 30000
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	busy := p.Demo()
	busy.Name = "busy"
	session := s.Open(s.Start(busy).GetId()).GetSessionId()
	other := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	lazy := p.Dial(t, s.PID(), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	events, err := lazy.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text(fmt.Sprintf("flood %d", pieces))}})
	if err != nil {
		t.Fatal(err)
	}
	// The agent is held up, and others are not.
	if !testkit.Poll(func() bool {
		resp, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: session})
		return err == nil && resp.GetSession().GetUpdates() > 100
	}) {
		t.Fatal("the agent does not begin")
	}
	for range 5 {
		s.Prompt(other, "repeat").Stopped("end_turn")
	}
	resp, err := s.State.GetSession(s.Ctx, &supervisorv1.GetSessionRequest{SessionId: session})
	if err != nil || !resp.GetSession().GetTurnActive() || resp.GetSession().GetUpdates() >= pieces {
		t.Errorf("without a reader the agent has sent all: %d updates, a turn %v (%v)", resp.GetSession().GetUpdates(), resp.GetSession().GetTurnActive(), err)
	}
	turn := &e2e.Stream{T: t, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	turn.Stopped("end_turn")
	n := 0
	for _, e := range turn.Seen {
		if text := e.GetAgentMessage().GetContent().GetText().GetText(); text != "" {
			if want := fmt.Sprintf("piece %d\n", n); text != want {
				t.Fatalf("%q arrived where %q should", text, want)
			}
			n++
		}
	}
	if n != pieces {
		t.Errorf("%d pieces arrived, want %d", n, pieces)
	}
	s.Finish()
}

func TestPrompt_Large(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	whole := strings.Repeat("0123456789abcde\n", 5<<16) // 5 MiB
	turn := s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{
		e2e.Text("repeat"), {Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///whole.txt", Contents: &supervisorv1.EmbeddedResource_Text{Text: whole}}}},
	}})
	turn.Stopped("end_turn")
	warned := false
	for _, e := range turn.Seen {
		if n := e.GetNotice(); n.GetFromAcphost() && n.GetSeverity() == "warning" {
			warned = true
		}
		if e.GetTurnStarted() != nil && (len(e.GetTurnStarted().GetPrompt()) != 2 || len(e.GetTurnStarted().GetPrompt()[1].GetResource().GetText()) > 64<<10 || len(e.GetRaw()) < len(whole)) {
			t.Errorf("the turn began with %d blocks, and %d bytes of raw JSON", len(e.GetTurnStarted().GetPrompt()), len(e.GetRaw()))
		}
	}
	if !warned {
		t.Errorf("no warning was logged:\n%s", e2e.Listing(turn.Seen))
	}
	for name, req := range map[string]*supervisorv1.PromptRequest{
		"no blocks": {SessionId: id}, "an empty block": {SessionId: id, Prompt: []*supervisorv1.ContentBlock{{}}},
		"a block of a type that there is not": {SessionId: id, Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Other{Other: "{}"}}}},
	} {
		events, err := s.Sessions.Prompt(s.Ctx, req)
		if err == nil {
			_, err = events.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
		}
	}
	s.Finish()
}
