package e2e_test

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
)

// plays starts an agent that the test plays, under a name, up to its answer to initialize.
func (s *server) plays(name string) (*supervisorv1.Agent, *pupil) {
	s.t.Helper()
	st := s.newStage(s.t)
	type result struct {
		agent *supervisorv1.Agent
		err   error
	}
	started := make(chan result, 1)
	go func() {
		resp, err := s.agents.StartAgent(s.ctx, &supervisorv1.StartAgentRequest{Command: st.command, Cwd: s.work, Name: name, Separate: true})
		started <- result{resp.GetAgent(), err}
	}()
	actor := st.play(s.t)
	actor.Reply(actor.Expect("initialize"), json.RawMessage(`{"protocolVersion":1,"agentInfo":{"name":"puppet","version":"0.1"},"agentCapabilities":{"sessionCapabilities":{"close":{}}}}`))
	r := <-started
	if r.err != nil {
		s.t.Fatal(explain(r.err))
	}
	return r.agent, actor
}

// opens opens a session with an agent that the test plays, which gives it an id.
func (s *server) opens(agent *supervisorv1.Agent, actor *pupil, id string) error {
	s.t.Helper()
	result := make(chan error, 1)
	go func() {
		_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: s.work})
		result <- err
	}()
	actor.Reply(actor.Expect("session/new"), map[string]any{"sessionId": id})
	return <-result
}

// prompts begins a turn with an agent that the test plays.
func (s *server) prompts(agent *supervisorv1.Agent, session string) *stream {
	s.t.Helper()
	return s.promptWith(s.ctx, &supervisorv1.PromptRequest{AgentId: agent.GetId(), SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("play")}})
}

// update sends a session/update as it is written.
func (p *pupil) update(session, update string) {
	p.Write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":%q,"update":%s}}`, session, update))
}

func chunk(words string) string {
	text, _ := json.Marshal(words) // a string always marshals
	return fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":%s}}`, text)
}

func TestSessionsOfTwoAgentsMayHaveTheSameID(t *testing.T) {
	t.Parallel()
	s := newPlace(t).serve(t, nil)
	type played struct {
		*supervisorv1.Agent
		*pupil
	}
	var all []played
	for _, name := range []string{"one", "two"} {
		agent, actor := s.plays(name)
		if err := s.opens(agent, actor, "same"); err != nil {
			t.Fatal(explain(err))
		}
		all = append(all, played{agent, actor})
	}
	for _, x := range all {
		turn := s.prompts(x.Agent, "same")
		asked := x.pupil.Expect("session/prompt")
		x.update("same", chunk("I am "+x.GetName()))
		x.pupil.Reply(asked, map[string]any{"stopReason": "end_turn"})
		turn.stopped("end_turn")
		if want := "I am " + x.GetName(); turn.said() != want {
			t.Errorf("the agent said %q, want %q", turn.said(), want)
		}
	}
	if _, err := s.state.GetSession(s.ctx, &supervisorv1.GetSessionRequest{SessionId: "same"}); err == nil {
		t.Error("an id that two agents have names a session")
	}
	// An agent that names a session of another one's says nothing there.
	watching := s.watch(&supervisorv1.WatchSessionRequest{AgentId: all[0].GetId(), SessionId: "same"})
	all[1].update("same", chunk("I am in the wrong place"))
	all[0].update("same", chunk("I am in the right one"))
	watching.says("I am in the right one")
	if k := watching.said(); strings.Contains(k, "wrong") || strings.Contains(k, "two") {
		t.Errorf("one's session was told %q", k)
	}
	// The same id twice from one agent would make two sessions one.
	if err := s.opens(all[0].Agent, all[0].pupil, "same"); err == nil {
		t.Error("an agent gave two sessions one id")
	}
	s.finish()
}

func TestWhatAnAgentSendsOutOfPlaceHarmsNothing(t *testing.T) {
	t.Parallel()
	s := newPlace(t).serve(t, nil)
	agent, actor := s.plays("strange")
	if err := s.opens(agent, actor, "s"); err != nil {
		t.Fatal(explain(err))
	}
	actor.update("nobody's", chunk("of a session that there is not"))
	actor.update("s", chunk("before a turn"))
	turn := s.prompts(agent, "s")
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
	actor.update("s", chunk("still here \u202e\x1b[31m"))
	actor.Reply(asked, map[string]any{"stopReason": "as it pleases"})
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"}) // once more
	end := turn.end()
	if end.GetStopReason() != "as it pleases" || end.GetError() != nil {
		t.Errorf("the turn ended with %v", end)
	}
	if !strings.Contains(turn.said(), "still here \u202e\x1b[31m") {
		t.Errorf("the agent said %q", turn.said())
	}
	// What was not understood is there all the same, as it came.
	raw := 0
	for _, e := range turn.seen {
		if strings.Contains(e.GetRaw(), "no base64!") || strings.Contains(e.GetRaw(), `"entries":"none"`) || strings.Contains(e.GetRaw(), "1e400") {
			raw++
		}
	}
	if raw != 3 {
		t.Errorf("of 3 odd updates %d were told:\n%s", raw, listing(turn.seen))
	}
	second := s.prompts(agent, "s")
	actor.Reply(actor.Expect("session/prompt"), map[string]any{"stopReason": "end_turn"})
	second.stopped("end_turn")
	s.finish()
}

func TestAQuestionLivesAsLongAsTheAgentWaits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent, actor := s.plays("asking")
	if err := s.opens(agent, actor, "s"); err != nil {
		t.Fatal(explain(err))
	}
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	ask := map[string]any{"sessionId": "s", "toolCall": map[string]any{"toolCallId": "t", "title": "May I?"}, "options": options}

	// Withdrawn by the agent, under an id that is a string.
	turn := s.prompts(agent, "s")
	asked := actor.Expect("session/prompt")
	question := actor.SendAs(`"q-1"`, "session/request_permission", ask)
	q := turn.question()
	if want := agent.GetId() + "/q-1"; handleOf(q.GetId()) != want {
		t.Errorf("the question is %q, want %q", handleOf(q.GetId()), want)
	}
	actor.Write(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"q-1"}}`)
	if a := ended(t, changes, q.GetId()); a.GetOutcome() != "withdrawn" {
		t.Errorf("the question that was withdrawn ended with %v", a)
	}
	question.Answer()
	_, err = s.approvals.AnswerApproval(s.ctx, yes(q, "late"))
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a question that was withdrawn was answered: %v", err)
	}

	// Another one in its place, whose handle begins alike.
	question = actor.SendAs(`"q-1x"`, "session/request_permission", ask)
	other := turn.question()
	code, _, said := p.cli(t, "approvals", "answer", "--pid", strconv.Itoa(s.PID()), handleOf(q.GetId()), "allow_once")
	if code != 1 || !strings.HasSuffix(said, "question "+handleOf(q.GetId())+" does not wait any more: the agent withdrew it, or is gone\n") {
		t.Errorf("the answer to what was withdrawn has the status %d: %s", code, said)
	}
	if _, err := s.approvals.AnswerApproval(s.ctx, yes(other, "grpc")); err != nil {
		t.Errorf("the question in its place cannot be answered: %v", err)
	}
	question.Answer()

	// Open while the turn ends: the agent waits for it still.
	question = actor.SendAs(`7`, "session/request_permission", ask)
	q = turn.question()
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.stopped("end_turn")
	if _, err := s.approvals.AnswerApproval(s.ctx, yes(q, "late")); err != nil {
		t.Errorf("a question that its turn left behind cannot be answered: %v", explain(err))
	}
	if got := chosen(t, question); got != "yes" {
		t.Errorf("the agent was told %q, want yes", got)
	}

	// A question that offers nothing, and one that is none.
	turn = s.prompts(agent, "s")
	asked = actor.Expect("session/prompt")
	actor.Send("session/request_permission", map[string]any{"sessionId": "s", "toolCall": map[string]any{"toolCallId": "t"}, "options": []any{}})
	q = turn.question()
	if _, err := s.approvals.AnswerApproval(s.ctx, &supervisorv1.AnswerApprovalRequest{Id: q.GetId(), Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}}); err != nil {
		t.Errorf("a question without options cannot be given up: %v", explain(err))
	}
	actor.Send("session/request_permission", json.RawMessage(`{"sessionId":"s","toolCall":null,"options":"none"}`)).Answer()
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.stopped("end_turn")
	s.finish()
}

func TestACallerThatReadsLateLosesNothing(t *testing.T) {
	t.Parallel()
	const pieces = 30000
	p := newPlace(t)
	s := p.serve(t, nil)
	busy := p.demo()
	busy.Name = "busy"
	session := s.open(s.start(busy).GetId()).GetSessionId()
	other := s.open(s.start(p.demo()).GetId()).GetSessionId()
	lazy := p.dial(t, s.PID(), grpc.WithStaticStreamWindowSize(64<<10), grpc.WithStaticConnWindowSize(64<<10))
	events, err := lazy.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text(fmt.Sprintf("flood %d", pieces))}})
	if err != nil {
		t.Fatal(err)
	}
	// The agent is held up, and others are not.
	if !testkit.Poll(func() bool {
		resp, err := s.state.GetSession(s.ctx, &supervisorv1.GetSessionRequest{SessionId: session})
		return err == nil && resp.GetSession().GetUpdates() > 100
	}) {
		t.Fatal("the agent does not begin")
	}
	for range 5 {
		s.prompt(other, "repeat").stopped("end_turn")
	}
	resp, err := s.state.GetSession(s.ctx, &supervisorv1.GetSessionRequest{SessionId: session})
	if err != nil || !resp.GetSession().GetTurnActive() || resp.GetSession().GetUpdates() >= pieces {
		t.Errorf("while nobody reads the agent has sent all: %d updates, a turn %v (%v)", resp.GetSession().GetUpdates(), resp.GetSession().GetTurnActive(), err)
	}
	turn := &stream{t: t, next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	turn.stopped("end_turn")
	n := 0
	for _, e := range turn.seen {
		if said := e.GetAgentMessage().GetContent().GetText().GetText(); said != "" {
			if want := fmt.Sprintf("piece %d\n", n); said != want {
				t.Fatalf("%q came where %q should", said, want)
			}
			n++
		}
	}
	if n != pieces {
		t.Errorf("%d pieces came, want %d", n, pieces)
	}
	s.finish()
}

func TestAPromptMayBeLarge(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	id := s.open(s.start(p.demo()).GetId()).GetSessionId()
	whole := strings.Repeat("0123456789abcde\n", 5<<16) // 5 MiB
	turn := s.promptWith(s.ctx, &supervisorv1.PromptRequest{SessionId: id, Prompt: []*supervisorv1.ContentBlock{
		text("repeat"), {Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///whole.txt", Contents: &supervisorv1.EmbeddedResource_Text{Text: whole}}}},
	}})
	turn.stopped("end_turn")
	warned := false
	for _, e := range turn.seen {
		if n := e.GetNotice(); n.GetFromAcphost() && n.GetSeverity() == "warning" {
			warned = true
		}
		if e.GetTurnStarted() != nil && (len(e.GetTurnStarted().GetPrompt()) != 2 || len(e.GetTurnStarted().GetPrompt()[1].GetResource().GetText()) > 64<<10 || len(e.GetRaw()) < len(whole)) {
			t.Errorf("the turn began with %d blocks, and %d bytes of raw JSON", len(e.GetTurnStarted().GetPrompt()), len(e.GetRaw()))
		}
	}
	if !warned {
		t.Errorf("nobody was warned:\n%s", listing(turn.seen))
	}
	for name, req := range map[string]*supervisorv1.PromptRequest{
		"no blocks": {SessionId: id}, "an empty block": {SessionId: id, Prompt: []*supervisorv1.ContentBlock{{}}},
		"a block of a type that there is not": {SessionId: id, Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Other{Other: "{}"}}}},
	} {
		events, err := s.sessions.Prompt(s.ctx, req)
		if err == nil {
			_, err = events.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
		}
	}
	s.finish()
}
