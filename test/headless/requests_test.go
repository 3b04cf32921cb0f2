package headless_test

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
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// able is the answer to initialize of an agent with all capabilities.
const able = `{"protocolVersion":1,"agentInfo":{"name":"able","title":"Able","version":"2"},"agentCapabilities":{"loadSession":true,` +
	`"promptCapabilities":{"image":true,"audio":true,"embeddedContext":true},"mcpCapabilities":{"http":true,"sse":true},` +
	`"sessionCapabilities":{"list":{},"close":{},"delete":{},"resume":{},"fork":{},"additionalDirectories":{}},"auth":{"logout":{}}}}`

// asks makes a call in the background, and returns its result when the agent that the test plays has answered.
func asks[R any](t *testing.T, actor *e2e.ScriptedAgent, method, answer string, call func() (R, error)) (wire.Message, R, error) {
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
	if !e2e.EqualJSON(t, m.Params, json.RawMessage(want)) {
		t.Errorf("the agent was sent %s, want %s", m.Params, want)
	}
}

func TestServices_RequestsReachAgentAsACP(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	st := p.Stage(t)
	type started struct {
		agent *supervisorv1.Agent
		err   error
	}
	starting := make(chan started, 1)
	go func() {
		resp, err := s.Agents.StartAgent(s.Ctx, &supervisorv1.StartAgentRequest{Command: st.Command, Cwd: p.Work, Name: "able"})
		starting <- started{resp.GetAgent(), err}
	}()
	actor := st.Play(t)
	actor.Reply(actor.Expect("initialize"), json.RawMessage(able))
	up := <-starting
	if up.err != nil {
		t.Fatal(e2e.Explain(up.err))
	}
	agent, other := up.agent.GetId(), filepath.Join(p.Home, "tmp")

	servers := []*supervisorv1.McpServer{
		{Name: "files", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/bin/mcp", Args: []string{"--all", ""}, Env: map[string]string{"B": "2", "A": "1"}}}},
		{Name: "web", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "https://example.com/mcp", Headers: map[string]string{"X-Key": "k"}}}},
		{Name: "old", Transport: &supervisorv1.McpServer_Sse{Sse: &supervisorv1.McpHttp{Url: "https://example.com/sse"}}},
	}
	const serversJSON = `[{"name":"files","command":"/bin/mcp","args":["--all",""],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},` +
		`{"type":"http","name":"web","url":"https://example.com/mcp","headers":[{"name":"X-Key","value":"k"}]},{"type":"sse","name":"old","url":"https://example.com/sse","headers":[]}]`
	m, opened, err := asks(t, actor, "session/new", `{"sessionId":"s"}`, func() (*supervisorv1.NewSessionResponse, error) {
		return s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.Work, AdditionalDirectories: []string{other}, McpServers: servers})
	})
	if err != nil || opened.GetSession().GetSessionId() != "s" {
		t.Fatalf("the session is %v (%v)", opened, e2e.Explain(err))
	}
	sent(t, m, `{"cwd":"`+p.Work+`","additionalDirectories":["`+other+`"],"mcpServers":`+serversJSON+`}`)

	// Every kind of content.
	all := []*supervisorv1.ContentBlock{
		{Content: e2e.Text("words \u2028 <b>").Content, Meta: `{"a/b":[1]}`, Annotations: &supervisorv1.Annotations{Audience: []string{"assistant"}, LastModified: "2026-01-02T03:04:05Z", Priority: proto.Float64(0)}},
		{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte{255, 0}, MimeType: "image/png", Uri: "file:///i.png"}}},
		{Content: &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: []byte{1}, MimeType: "audio/wav"}}},
		{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: "file:///l", Name: "l", Title: "L", Description: "a link", MimeType: "text/plain", Size: proto.Int64(0)}}},
		{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///t", MimeType: "text/plain", Contents: &supervisorv1.EmbeddedResource_Text{Text: ""}}}},
		{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///b", Contents: &supervisorv1.EmbeddedResource_Blob{Blob: []byte{0}}}}},
	}
	turn := s.PromptWith(s.Ctx, &supervisorv1.PromptRequest{SessionId: "s", Prompt: all})
	asked := actor.Expect("session/prompt")
	sent(t, asked, `{"sessionId":"s","prompt":[
		{"type":"text","text":"words \u2028 <b>","annotations":{"audience":["assistant"],"lastModified":"2026-01-02T03:04:05Z","priority":0},"_meta":{"a/b":[1]}},
		{"type":"image","data":"/wA=","mimeType":"image/png","uri":"file:///i.png"},
		{"type":"audio","data":"AQ==","mimeType":"audio/wav"},
		{"type":"resource_link","uri":"file:///l","name":"l","title":"L","description":"a link","mimeType":"text/plain","size":0},
		{"type":"resource","resource":{"uri":"file:///t","mimeType":"text/plain","text":""}},
		{"type":"resource","resource":{"uri":"file:///b","blob":"AA=="}}]}`)
	actor.Reply(asked, map[string]any{"stopReason": "end_turn"})
	turn.Stopped("end_turn")
	if prompt := turn.Seen[0].GetTurnStarted().GetPrompt(); len(prompt) != len(all) {
		t.Errorf("the turn began with %v", prompt)
	} else {
		for i := range all {
			if !proto.Equal(prompt[i], all[i]) {
				t.Errorf("block %d of the prompt was sent as %v, want %v", i, prompt[i], all[i])
			}
		}
	}

	// Cancelling is a notification; the turn ends when the agent reports its end.
	turn = s.Prompt("s", "wait")
	asked = actor.Expect("session/prompt")
	if _, err := s.Sessions.CancelPrompt(s.Ctx, &supervisorv1.CancelPromptRequest{SessionId: "s"}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	sent(t, actor.Expect("session/cancel"), `{"sessionId":"s"}`)
	actor.Reply(asked, map[string]any{"stopReason": "cancelled"})
	turn.Stopped("cancelled")

	// Loading, resuming, forking, closing, listing, deleting, logging out.
	m, _, err = asks(t, actor, "session/fork", `{"sessionId":"f"}`, func() (*supervisorv1.ForkSessionResponse, error) {
		return s.Sessions.ForkSession(s.Ctx, &supervisorv1.ForkSessionRequest{SessionId: "s", McpServers: servers[2:]})
	})
	if err != nil {
		t.Error(e2e.Explain(err))
	}
	sent(t, m, `{"sessionId":"s","cwd":"`+p.Work+`","mcpServers":[{"type":"sse","name":"old","url":"https://example.com/sse","headers":[]}]}`)
	m, _, err = asks(t, actor, "session/load", `null`, func() (*supervisorv1.LoadSessionResponse, error) {
		return s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: "stored", Cwd: p.Work})
	})
	if err != nil {
		t.Errorf("an answer null to session/load, as some agents give: %v", e2e.Explain(err))
	}
	sent(t, m, `{"sessionId":"stored","cwd":"`+p.Work+`","mcpServers":[]}`)
	m, _, err = asks(t, actor, "session/resume", `{}`, func() (*supervisorv1.ResumeSessionResponse, error) {
		return s.Sessions.ResumeSession(s.Ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: "kept", Cwd: p.Work, AdditionalDirectories: []string{other}})
	})
	if err != nil {
		t.Error(e2e.Explain(err))
	}
	var params struct {
		SessionID, Cwd        string
		AdditionalDirectories []string
	}
	if m.Decode(t, &params); params.SessionID != "kept" || params.Cwd != p.Work || len(params.AdditionalDirectories) != 1 {
		t.Errorf("the agent was sent %s", m.Params)
	}
	m, _, err = asks(t, actor, "session/close", `{}`, func() (*supervisorv1.CloseSessionResponse, error) {
		return s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: "f"})
	})
	if err != nil {
		t.Error(e2e.Explain(err))
	}
	sent(t, m, `{"sessionId":"f"}`)
	m, page, err := asks(t, actor, "session/list", `{"sessions":[{"sessionId":"x","cwd":"/x","title":null,"updatedAt":"2026-01-02T03:04:05Z"}],"nextCursor":"more"}`, func() (*supervisorv1.ListStoredSessionsResponse, error) {
		return s.Sessions.ListStoredSessions(s.Ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent, Cwd: "/x", Cursor: "c"})
	})
	if err != nil || page.GetNextCursor() != "more" || len(page.GetSessions()) != 1 || page.GetSessions()[0].GetUpdatedAt() != "2026-01-02T03:04:05Z" {
		t.Errorf("the list is %v (%v)", page, e2e.Explain(err))
	}
	sent(t, m, `{"cwd":"/x","cursor":"c"}`)
	m, _, err = asks(t, actor, "session/delete", `{}`, func() (*supervisorv1.DeleteSessionResponse, error) {
		return s.Sessions.DeleteSession(s.Ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: "x"})
	})
	if err != nil {
		t.Error(e2e.Explain(err))
	}
	sent(t, m, `{"sessionId":"x"}`)
	if _, _, err = asks(t, actor, "logout", `{}`, func() (*supervisorv1.LogoutResponse, error) {
		return s.Agents.Logout(s.Ctx, &supervisorv1.LogoutRequest{AgentId: agent})
	}); err != nil {
		t.Error(e2e.Explain(err))
	}
	s.Finish()
}

func TestForm_AcceptDeclineCancel(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	req := p.Demo()
	req.Attended = true
	id := s.Open(s.Start(req).GetId()).GetSessionId()
	changes, err := s.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{})
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
		turn := s.Prompt(id, "elicit")
		q := turn.Question()
		for name, wrong := range map[string]*supervisorv1.AnswerApprovalRequest{
			"an option": {Answer: &supervisorv1.AnswerApprovalRequest_OptionId{OptionId: "allow"}},
			"no JSON":   {Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "{"}},
			"no object": {Answer: &supervisorv1.AnswerApprovalRequest_Accept{Accept: "[1]"}},
			"nothing":   {},
		} {
			wrong.Id = q.GetId()
			if _, err := s.Approvals.AnswerApproval(s.Ctx, wrong); status.Code(err) != codes.InvalidArgument {
				t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
			}
		}
		answer.Id = q.GetId()
		if _, err := s.Approvals.AnswerApproval(s.Ctx, answer); err != nil {
			t.Fatal(e2e.Explain(err))
		}
		turn.Stopped("end_turn")
		if got := "elicit ok: " + want; turn.Said() != got {
			t.Errorf("the agent sent %q, want %q", turn.Said(), got)
		}
	}
	s.Finish()
}

func TestRestartAgent_KeepsSessions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo())
	idle, busy := s.Open(agent.GetId()).GetSessionId(), s.Open(agent.GetId()).GetSessionId()
	turn := s.Prompt(busy, "sleep")
	turn.Says("waiting")
	again, err := s.Agents.RestartAgent(s.Ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()})
	if err != nil || again.GetAgent().GetPid() == agent.GetPid() || again.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING {
		t.Fatalf("restarted it is %v (%v)", again, e2e.Explain(err))
	}
	if e := turn.End().GetError(); e.GetKind() != supervisorv1.ErrorKind_ERROR_KIND_STOPPED {
		t.Errorf("the turn ended with %v, want that the agent was stopped", e)
	}
	for _, id := range []string{idle, busy} {
		turn := s.Prompt(id, "repeat on")
		turn.Stopped("end_turn")
		if want := id + ": on"; turn.Said() != want {
			t.Errorf("the agent sent %q, want %q", turn.Said(), want)
		}
	}
	s.Finish()
}

func TestEvents_HandlerRestart(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	id := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	turn := s.Prompt(id, "repeat")
	turn.Stopped("end_turn")
	events, err := s.State.WatchEvents(s.Ctx, &supervisorv1.WatchEventsRequest{Cursor: turn.Seen[0].GetCursor()})
	if err != nil {
		t.Fatal(err)
	}
	watching := &e2e.Stream{T: t, Next: func() (*supervisorv1.Event, error) {
		m, err := events.Recv()
		return m.GetEvent(), err
	}}
	list, err := s.State.ListHandlers(s.Ctx, &supervisorv1.ListHandlersRequest{})
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
	watching.Until("the handler is not ready", func(e *supervisorv1.Event) bool {
		return e.GetHandler().GetName() == "fs" && e.GetHandler().GetState() != "ready" && e.GetHandler().GetError() != ""
	})
	back := watching.Until("the handler is ready", func(e *supervisorv1.Event) bool {
		return e.GetHandler().GetName() == "fs" && e.GetHandler().GetState() == "ready"
	}).GetHandler()
	if back.GetRestarts() != 1 {
		t.Errorf("the handler is back as %v, want one restart", back)
	}
	p.File(t, "a.txt", "text\n")
	turn = s.Prompt(id, "/read "+p.Path("a.txt"))
	turn.Stopped("end_turn")
	if !strings.Contains(turn.Said(), "read ok: text") {
		t.Errorf("the agent sent %q", turn.Said())
	}
	s.Finish()
}
