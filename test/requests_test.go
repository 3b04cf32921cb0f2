package e2e_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// able is what an agent answers initialize with that can do everything.
const able = `{"protocolVersion":1,"agentInfo":{"name":"able","title":"Able","version":"2"},"agentCapabilities":{"loadSession":true,` +
	`"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},` +
	`"sessionCapabilities":{"list":{},"close":{},"delete":{},"resume":{},"fork":{},"additionalDirectories":{}},"auth":{"logout":{}}}}`

// asks makes a call in the background, and returns its result when the agent that the test plays has answered.
func asks[R any](t *testing.T, actor *pupil, method, answer string, call func() (R, error)) (wire.Message, R, error) {
	t.Helper()
	type result struct {
		r   R
		err error
	}
	done := make(chan result, 1)
	go func() {
		r, err := call()
		done <- result{r, err}
	}()
	asked := actor.Expect(method)
	actor.Reply(asked, json.RawMessage(answer))
	got := <-done
	return asked, got.r, got.err
}

// sent fails the test unless a request's params are exactly these.
func sent(t *testing.T, m wire.Message, want string) {
	t.Helper()
	if !equalJSON(t, m.Params, json.RawMessage(want)) {
		t.Errorf("the agent was sent %s, want %s", m.Params, want)
	}
}

func TestWhatAProgramAsksForReachesTheAgentAsACPHasIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	st := p.newStage(t)
	type started struct {
		agent *supervisorv1.Agent
		err   error
	}
	starting := make(chan started, 1)
	go func() {
		resp, err := s.agents.StartAgent(s.ctx, &supervisorv1.StartAgentRequest{Command: st.command, Cwd: p.work, Name: "able"})
		starting <- started{resp.GetAgent(), err}
	}()
	actor := st.play(t)
	actor.Reply(actor.Expect("initialize"), json.RawMessage(able))
	up := <-starting
	if up.err != nil {
		t.Fatal(explain(up.err))
	}
	agent, other := up.agent.GetId(), filepath.Join(p.home, "tmp")

	servers := []*supervisorv1.McpServer{
		{Name: "files", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/bin/mcp", Args: []string{"--all", ""}, Env: map[string]string{"B": "2", "A": "1"}}}},
		{Name: "web", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "https://example.com/mcp", Headers: map[string]string{"X-Key": "k"}}}},
		{Name: "old", Transport: &supervisorv1.McpServer_Sse{Sse: &supervisorv1.McpHttp{Url: "https://example.com/sse"}}},
	}
	const serversJSON = `[{"name":"files","command":"/bin/mcp","args":["--all",""],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},` +
		`{"type":"http","name":"web","url":"https://example.com/mcp","headers":[{"name":"X-Key","value":"k"}]},{"type":"sse","name":"old","url":"https://example.com/sse","headers":[]}]`
	m, opened, err := asks(t, actor, "session/new", `{"sessionId":"s"}`, func() (*supervisorv1.NewSessionResponse, error) {
		return s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.work, AdditionalDirectories: []string{other}, McpServers: servers})
	})
	if err != nil || opened.GetSession().GetSessionId() != "s" {
		t.Fatalf("the session is %v (%v)", opened, explain(err))
	}
	sent(t, m, `{"cwd":"`+p.work+`","additionalDirectories":["`+other+`"],"mcpServers":`+serversJSON+`}`)

	// Every kind of content.
	all := []*supervisorv1.ContentBlock{
		{Content: text("words \u2028 <b>").Content, Meta: `{"a/b":[1]}`, Annotations: &supervisorv1.Annotations{Audience: []string{"assistant"}, LastModified: "2026-01-02T03:04:05Z", Priority: proto.Float64(0)}},
		{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte{255, 0}, MimeType: "image/png", Uri: "file:///i.png"}}},
		{Content: &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: []byte{1}, MimeType: "audio/wav"}}},
		{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: "file:///l", Name: "l", Title: "L", Description: "a link", MimeType: "text/plain", Size: proto.Int64(0)}}},
		{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///t", MimeType: "text/plain", Contents: &supervisorv1.EmbeddedResource_Text{Text: ""}}}},
		{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///b", Contents: &supervisorv1.EmbeddedResource_Blob{Blob: []byte{0}}}}},
	}
	turn := s.promptWith(s.ctx, &supervisorv1.PromptRequest{SessionId: "s", Prompt: all})
	asked := actor.Expect("session/prompt")
	sent(t, asked, `{"sessionId":"s","prompt":[
		{"type":"text","text":"words \u2028 <b>","annotations":{"audience":["assistant"],"lastModified":"2026-01-02T03:04:05Z","priority":0},"_meta":{"a/b":[1]}},
		{"type":"image","data":"/wA=","mimeType":"image/png","uri":"file:///i.png"},
		{"type":"audio","data":"AQ==","mimeType":"audio/wav"},
		{"type":"resource_link","uri":"file:///l","name":"l","title":"L","description":"a link","mimeType":"text/plain","size":0},
		{"type":"resource","resource":{"uri":"file:///t","mimeType":"text/plain","text":""}},
		{"type":"resource","resource":{"uri":"file:///b","blob":"AA=="}}]}`)
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.stopped("end_turn")
	if told := turn.seen[0].GetTurnStarted().GetPrompt(); len(told) != len(all) {
		t.Errorf("the turn began with %v", told)
	} else {
		for i := range all {
			if !proto.Equal(told[i], all[i]) {
				t.Errorf("block %d of the prompt was told as %v, want %v", i, told[i], all[i])
			}
		}
	}

	// Cancelling is a notification; the turn ends when the agent says so.
	turn = s.prompt("s", "wait")
	asked = actor.Expect("session/prompt")
	if _, err := s.sessions.CancelPrompt(s.ctx, &supervisorv1.CancelPromptRequest{SessionId: "s"}); err != nil {
		t.Fatal(explain(err))
	}
	sent(t, actor.Expect("session/cancel"), `{"sessionId":"s"}`)
	actor.Reply(asked, map[string]any{"stopReason": "cancelled"})
	turn.stopped("cancelled")

	// Loading, resuming, forking, closing, listing, deleting, logging out.
	m, _, err = asks(t, actor, "session/fork", `{"sessionId":"f"}`, func() (*supervisorv1.ForkSessionResponse, error) {
		return s.sessions.ForkSession(s.ctx, &supervisorv1.ForkSessionRequest{SessionId: "s", McpServers: servers[2:]})
	})
	if err != nil {
		t.Error(explain(err))
	}
	sent(t, m, `{"sessionId":"s","cwd":"`+p.work+`","mcpServers":[{"type":"sse","name":"old","url":"https://example.com/sse","headers":[]}]}`)
	m, _, err = asks(t, actor, "session/load", `null`, func() (*supervisorv1.LoadSessionResponse, error) {
		return s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: "stored", Cwd: p.work})
	})
	if err != nil {
		t.Errorf("an answer null to session/load, as some agents give: %v", explain(err))
	}
	sent(t, m, `{"sessionId":"stored","cwd":"`+p.work+`","mcpServers":[]}`)
	m, _, err = asks(t, actor, "session/resume", `{}`, func() (*supervisorv1.ResumeSessionResponse, error) {
		return s.sessions.ResumeSession(s.ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: "kept", Cwd: p.work, AdditionalDirectories: []string{other}})
	})
	if err != nil {
		t.Error(explain(err))
	}
	var params struct {
		SessionID, Cwd        string
		AdditionalDirectories []string
	}
	if m.Decode(t, &params); params.SessionID != "kept" || params.Cwd != p.work || len(params.AdditionalDirectories) != 1 {
		t.Errorf("the agent was sent %s", m.Params)
	}
	m, _, err = asks(t, actor, "session/close", `{}`, func() (*supervisorv1.CloseSessionResponse, error) {
		return s.sessions.CloseSession(s.ctx, &supervisorv1.CloseSessionRequest{SessionId: "f"})
	})
	if err != nil {
		t.Error(explain(err))
	}
	sent(t, m, `{"sessionId":"f"}`)
	m, page, err := asks(t, actor, "session/list", `{"sessions":[{"sessionId":"x","cwd":"/x","title":null,"updatedAt":"2026-01-02T03:04:05Z"}],"nextCursor":"more"}`, func() (*supervisorv1.ListStoredSessionsResponse, error) {
		return s.sessions.ListStoredSessions(s.ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent, Cwd: "/x", Cursor: "c"})
	})
	if err != nil || page.GetNextCursor() != "more" || len(page.GetSessions()) != 1 || page.GetSessions()[0].GetUpdatedAt() != "2026-01-02T03:04:05Z" {
		t.Errorf("the list is %v (%v)", page, explain(err))
	}
	sent(t, m, `{"cwd":"/x","cursor":"c"}`)
	m, _, err = asks(t, actor, "session/delete", `{}`, func() (*supervisorv1.DeleteSessionResponse, error) {
		return s.sessions.DeleteSession(s.ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: "x"})
	})
	if err != nil {
		t.Error(explain(err))
	}
	sent(t, m, `{"sessionId":"x"}`)
	if _, _, err = asks(t, actor, "logout", `{}`, func() (*supervisorv1.LogoutResponse, error) {
		return s.agents.Logout(s.ctx, &supervisorv1.LogoutRequest{AgentId: agent})
	}); err != nil {
		t.Error(explain(err))
	}
	s.finish()
}

func TestAFormIsAcceptedDeclinedOrLeft(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	req := p.demo()
	req.Attended = true
	id := s.open(s.start(req).GetId()).GetSessionId()
	changes, err := s.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	for want, answer := range map[string]*supervisorv1.AnswerApprovalRequest{
		`accept {"jobs":1,"target":"debug"}`: {Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: `{"target":"debug","jobs":1}`}},
		"decline":                            {Answer: &supervisorv1.AnswerApprovalRequest_Decline{Decline: true}},
		"cancel":                             {Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}},
	} {
		turn := s.prompt(id, "elicit")
		q := turn.question()
		for name, wrong := range map[string]*supervisorv1.AnswerApprovalRequest{
			"an option": {Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "allow"}},
			"no JSON":   {Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "{"}},
			"no object": {Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "[1]"}},
			"nothing":   {},
		} {
			wrong.Id = q.GetId()
			if _, err := s.approvals.AnswerApproval(s.ctx, wrong); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
			}
		}
		answer.Id = q.GetId()
		if _, err := s.approvals.AnswerApproval(s.ctx, answer); err != nil {
			t.Fatal(explain(err))
		}
		turn.stopped("end_turn")
		if got := "elicit ok: " + want; turn.said() != got {
			t.Errorf("the agent said %q, want %q", turn.said(), got)
		}
	}
	s.finish()
}

func TestAnAgentThatIsRestartedGoesOnWithItsSessions(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo())
	idle, busy := s.open(agent.GetId()).GetSessionId(), s.open(agent.GetId()).GetSessionId()
	turn := s.prompt(busy, "sleep")
	turn.says("waiting")
	again, err := s.agents.RestartAgent(s.ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()})
	if err != nil || again.GetAgent().GetPid() == agent.GetPid() || again.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
		t.Fatalf("restarted it is %v (%v)", again, explain(err))
	}
	if e := turn.end().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	for _, id := range []string{idle, busy} {
		turn := s.prompt(id, "repeat on")
		turn.stopped("end_turn")
		if want := id + ": on"; turn.said() != want {
			t.Errorf("the agent said %q, want %q", turn.said(), want)
		}
	}
	s.finish()
}

func TestAHandlerThatIsStartedAgainIsTold(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	id := s.open(s.start(p.demo()).GetId()).GetSessionId()
	turn := s.prompt(id, "repeat")
	turn.stopped("end_turn")
	events, err := s.state.WatchEvents(s.ctx, &supervisorv1.WatchEventsRequest{Cursor: turn.seen[0].GetCursor()})
	if err != nil {
		t.Fatal(err)
	}
	watching := &stream{t: t, next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	list, err := s.state.ListHandlers(s.ctx, &supervisorv1.ListHandlersRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range list.GetHandlers() {
		if h.GetName() == "fs" {
			if err := syscall.Kill(int(h.GetPid()), syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
	}
	watching.until("the handler is not ready", func(e *supervisorv1.Event) bool {
		return e.GetHandler().GetName() == "fs" && e.GetHandler().GetState() != "ready" && e.GetHandler().GetError() != ""
	})
	back := watching.until("the handler is ready", func(e *supervisorv1.Event) bool {
		return e.GetHandler().GetName() == "fs" && e.GetHandler().GetState() == "ready"
	}).GetHandler()
	if back.GetRestarts() != 1 {
		t.Errorf("the handler is back as %v, want one restart", back)
	}
	p.file(t, "a.txt", "text\n")
	turn = s.prompt(id, "/read "+p.path("a.txt"))
	turn.stopped("end_turn")
	if !strings.Contains(turn.said(), "read ok: text") {
		t.Errorf("the agent said %q", turn.said())
	}
	s.finish()
}
