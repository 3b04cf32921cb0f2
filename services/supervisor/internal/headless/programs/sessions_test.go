package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestOpen_SendsACPParams(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.start()
	servers := []*supervisorv1.McpServer{
		{Name: "files", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/bin/mcp", Args: []string{"-v"}, Env: map[string]string{"B": "2", "A": "1"}}}},
		{Name: "bare", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/bin/bare"}}},
		{Name: "web", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "https://example.org", Headers: map[string]string{"X": "y"}}}},
		{Name: "old", Transport: &supervisorv1.McpServer_Sse{Sse: &supervisorv1.McpHttp{Url: "https://example.org/sse"}}},
	}
	const serversJSON = `[{"name":"files","command":"/bin/mcp","args":["-v"],"env":[{"name":"A","value":"1"},{"name":"B","value":"2"}]},` +
		`{"name":"bare","command":"/bin/bare","args":[],"env":[]},` +
		`{"type":"http","name":"web","url":"https://example.org","headers":[{"name":"X","value":"y"}]},` +
		`{"type":"sse","name":"old","url":"https://example.org/sse","headers":[]}]`
	dirs := []string{"/x", "/y"}
	s, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", AdditionalDirectories: dirs, McpServers: servers})
	if err != nil {
		t.Fatal(err)
	}
	if s.GetSessionId() != "s1" || s.GetAgentId() != "bot-1" || strings.Join(s.GetRoots(), " ") != "/w /x /y" || s.GetStartTime() == nil || s.GetCursor() == "" {
		t.Errorf("the session is shown as %v", s)
	}
	if _, err := r.LoadSession(t.Context(), &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "old", Cwd: "/w"}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.ResumeSession(t.Context(), &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "older", Cwd: "/w", McpServers: servers[1:2]}); err != nil {
		t.Fatal(err)
	}
	f, err := r.ForkSession(t.Context(), &supervisorv1.ForkSessionRequest{SessionId: "s1", AdditionalDirectories: dirs[:1]})
	if err != nil || f.GetSessionId() != "f2" {
		t.Fatalf("%v, %v", f, err)
	}
	for _, tt := range []struct{ method, want string }{
		{"session/new", `{"cwd":"/w","additionalDirectories":["/x","/y"],"mcpServers":` + serversJSON + `}`},
		{"session/load", `{"sessionId":"old","cwd":"/w","mcpServers":[]}`},
		{"session/resume", `{"sessionId":"older","cwd":"/w","mcpServers":[{"name":"bare","command":"/bin/bare","args":[],"env":[]}]}`},
		{"session/fork", `{"sessionId":"s1","cwd":"/w","additionalDirectories":["/x"],"mcpServers":[]}`},
	} {
		if got := string(a.next(tt.method).Params); got != tt.want {
			t.Errorf("%s: got\n%s, want\n%s", tt.method, got, tt.want)
		}
	}
	ag, err := r.GetAgent("bot")
	if got := strings.Join(ag.GetSessionIds(), " "); err != nil || got != "s1 old older f2" {
		t.Errorf("open are %q, %v", got, err)
	}
}

func TestCalls_UnsupportedAreNotSent(t *testing.T) {
	r := newRig(t, map[string]part{"initialize": answer(plain)})
	_, a := r.start()
	s := r.open("bot")
	ctx := t.Context()
	http := []*supervisorv1.McpServer{{Name: "web", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "https://example.org"}}}}
	sse := []*supervisorv1.McpServer{{Name: "web", Transport: &supervisorv1.McpServer_Sse{Sse: &supervisorv1.McpHttp{Url: "https://example.org"}}}}
	for what, err := range map[string]error{
		"directories": second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", AdditionalDirectories: []string{"/x"}})),
		"HTTP":        second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", McpServers: http})),
		"server-sent": second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", McpServers: sse})),
		"load":        second(r.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"})),
		"resume":      second(r.ResumeSession(ctx, &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"})),
		"fork":        second(r.ForkSession(ctx, &supervisorv1.ForkSessionRequest{SessionId: s.GetSessionId()})),
		"list":        second(r.ListStoredSessions(ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"})),
		"delete":      r.DeleteSession(ctx, &supervisorv1.DeleteSessionRequest{AgentId: "bot", SessionId: "s1"}),
		"modes":       second(r.SetMode(ctx, &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "x"})),
		"models":      second(r.SetModel(ctx, &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "x"})),
		"options":     second(r.SetConfigOption(ctx, &supervisorv1.SetConfigOptionRequest{SessionId: "s1", ConfigId: "x", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true}})),
		"images": r.Prompt(ctx, &supervisorv1.PromptRequest{SessionId: "s1", Prompt: []*supervisorv1.ContentBlock{
			{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte("x"), MimeType: "image/png"}}},
		}}, nil),
	} {
		t.Run(what, func(t *testing.T) { wantFault(t, err, fault.Unsupported, missingKind, what) })
	}
	a.next("session/new")
	for range len(a.got) {
		if m := <-a.got; m.Method != "session/new" {
			t.Errorf("it got %s %s", m.Method, m.Params)
		}
	}
	res, err := r.CloseSession(ctx, &supervisorv1.CloseSessionRequest{SessionId: "s1"})
	if err != nil || res || len(a.got) != 0 || strings.Join(a.forgot, " ") != "s1" {
		t.Errorf("closed: got %v, %v; the link forgot %q", res, err, a.forgot)
	}
	_, err = r.prompt("s1", "still there?")
	wantFault(t, err, fault.NotFound, unknownKind, "no session")
}

func second[T any](_ T, err error) error { return err }

func TestSessions_RejectInvalidRequests(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	ctx := t.Context()
	for contains, err := range map[string]error{
		"more than the":        second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/" + strings.Repeat("w", maxOpening)})),
		"the session's id has": second(r.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: strings.Repeat("x", maxSessionID+1), Cwd: "/w"})),
		"no agent is named":    second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{Cwd: "/w"})),
	} {
		t.Run(contains, func(t *testing.T) { wantFault(t, err, fault.Invalid, noKind, contains) })
	}
}

func TestSessions_FoundByUniqueID(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Separate = true })
	r.open("bot-1")
	if events, err := r.prompt("s1", "hi"); err != nil || len(events) == 0 {
		t.Errorf("with one: %v, %v", events, err)
	}
	r.open("bot-2")
	_, err := r.prompt("s1", "hi")
	wantFault(t, err, fault.Precondition, noKind, "agent_id", "bot-1, bot-2")
	var agents []string
	req := promptOf("s1", "hi")
	req.AgentId = "bot-2"
	if err := r.Prompt(t.Context(), req, func(e *supervisorv1.Event) error { agents = append(agents, e.GetAgentId()); return nil }); err != nil {
		t.Fatal(err)
	}
	if len(agents) != 2 || agents[0] != "bot-2" {
		t.Errorf("notified of %q", agents)
	}
	_, err = r.prompt("s9", "hi")
	wantFault(t, err, fault.NotFound, unknownKind, "s9")
}

func TestSessions_OpenedOnce(t *testing.T) {
	loading, load := make(chan struct{}), make(chan struct{})
	r := newRig(t, map[string]part{"session/load": func(a *scripted, m message) {
		close(loading)
		<-load
		a.answer(m, `null`)
	}})
	_, a := r.start()
	req := &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"}
	done := make(chan error)
	go func() { done <- second(r.LoadSession(t.Context(), req)) }()
	<-loading
	_, err := r.LoadSession(t.Context(), req)
	wantFault(t, err, fault.Precondition, noKind, "being opened already")
	close(load)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	_, err = r.LoadSession(t.Context(), req)
	wantFault(t, err, fault.Precondition, noKind, "open already")
	// A caller that resumes an open session gets it unchanged.
	s, err := r.ResumeSession(t.Context(), &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"})
	if err != nil || s.GetSessionId() != "x" || a.saw("session/resume") {
		t.Errorf("resumed: %v, %v", s, err)
	}
	_, err = r.ResumeSession(t.Context(), &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/elsewhere"})
	wantFault(t, err, fault.Precondition, noKind, "open already")
}

func TestSessions_LimitsNumber(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.MaxSessions = 2 })
	r.start()
	r.open("bot")
	r.open("bot")
	_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
	wantFault(t, err, fault.Exhausted, noKind, "2 sessions")
	if res, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil || !res {
		t.Fatal(res, err)
	}
	r.open("bot")
	if err := r.DeleteSession(t.Context(), &supervisorv1.DeleteSessionRequest{AgentId: "bot", SessionId: "s2"}); err != nil {
		t.Fatal(err)
	}
	r.open("bot")
	if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	r.start()
	r.open("bot")
	r.open("bot")
}

func TestNewSession_ReusedIDClosesBoth(t *testing.T) {
	r := newRig(t, map[string]part{"session/new": answer(`{"sessionId":"same"}`)})
	_, a := r.start()
	sub := r.hub.Subscribe("bot-1", "same")
	defer sub.Close()
	r.open("bot")
	_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/other"})
	wantFault(t, err, fault.OfAgent, agentKind, "two sessions got the id")
	if ag, _ := r.GetAgent("bot"); len(ag.GetSessionIds()) != 0 {
		t.Errorf("open are %q", ag.GetSessionIds())
	}
	if strings.Join(a.forgot, " ") != "same" {
		t.Errorf("the link forgot %q", a.forgot)
	}
	var received []string
	for len(received) < 3 {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		received = append(received, words(e))
	}
	wantWords(t, received, "opened session/new", "opened session/new", "closed the agent gave its id to another session")
}

func TestNewSession_RejectsUnusableID(t *testing.T) {
	for name, result := range map[string]string{
		"none": `{}`, "null": `null`, "a number": `{"sessionId":5}`, "empty": `{"sessionId":""}`,
		"huge": `{"sessionId":"` + strings.Repeat("x", maxSessionID+1) + `"}`, "not UTF-8": "{\"sessionId\":\"\xff\"}",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]part{"session/new": answer(result)}, func(o *Options) { o.MaxSessions = 1 })
			r.start()
			for range 2 { // its place is given back
				_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
				wantFault(t, err, fault.OfAgent, agentKind, "without a session id that can be used")
			}
		})
	}
}

func TestErrors_KeepKindOfAgentError(t *testing.T) {
	for kind, p := range map[supervisorv1.ErrorKind]part{
		authKind: refuse(-32000, "who are you"), unknownKind: refuse(-32002, "gone"), missingKind: refuse(-32601, "what"), agentKind: refuse(-32603, "oh"),
	} {
		r := newRig(t, map[string]part{"session/load": p})
		r.start()
		_, err := r.LoadSession(t.Context(), &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"})
		wantFault(t, err, fault.OfAgent, kind, `agent "bot"`, "session/load")
		if kind == authKind && !strings.Contains(err.Error(), "log in as its documentation says, or by Authenticate") {
			t.Errorf("got %v, want what to do", err)
		}
	}
}

func TestCalls_TimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"session/new": ignore, "session/list": ignore}, func(o *Options) { o.MaxSessions = 1 })
		_, a := r.start()
		_, err := r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"})
		wantFault(t, err, fault.OfAgent, noKind, "did not answer within 1m0s")
		list := a.next("session/list")
		if got, want := string(a.next("$/cancel_request").Params), `{"requestId":`+string(list.ID)+`}`; got != want {
			t.Errorf("it was asked to cancel %s, want %s", got, want)
		}
		_, err = r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
		wantFault(t, err, fault.OfAgent, noKind, "did not answer within 1m0s")
		_, err = r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
		wantFault(t, err, fault.Exhausted, noKind)
		r.Close()
	})
}

func TestNewSession_AbandonedIsClosed(t *testing.T) {
	asked, answerIt := make(chan struct{}), make(chan struct{})
	r := newRig(t, map[string]part{"session/new": func(a *scripted, m message) {
		close(asked)
		<-answerIt
		a.answer(m, `{"sessionId":"late"}`)
	}})
	_, a := r.start()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- second(r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})) }()
	<-asked
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(answerIt)
	if got := string(a.next("session/close").Params); got != `{"sessionId":"late"}` {
		t.Errorf("it was asked to close %s", got)
	}
}

func TestListStoredSessions_ReturnsAgentsList(t *testing.T) {
	r := newRig(t, map[string]part{"session/list": answer(`{"sessions":[` +
		`{"sessionId":"s1","cwd":"/w","additionalDirectories":["/x"],"title":"One","updatedAt":"2026-01-01T00:00:00Z"},` +
		`{"cwd":"/no/id"},5,{"sessionId":"s2","cwd":7,"title":null}],"nextCursor":"more"}`)})
	_, a := r.start()
	r.open("bot")
	got, err := r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "bot", Cwd: "/w", Cursor: `a"b`})
	if err != nil {
		t.Fatal(err)
	}
	all := got.GetSessions()
	if len(all) != 2 || got.GetNextCursor() != "more" || !all[0].GetOpen() || all[0].GetTitle() != "One" || all[0].GetUpdatedAt() == "" ||
		all[0].GetCwd() != "/w" || all[0].GetAdditionalDirectories()[0] != "/x" || all[1].GetOpen() || all[1].GetSessionId() != "s2" {
		t.Errorf("got %v", got)
	}
	if got := string(a.next("session/list").Params); got != `{"cwd":"/w","cursor":"a\"b"}` {
		t.Errorf("it got %s", got)
	}
	if _, err := r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"}); err != nil {
		t.Fatal(err)
	}
	if got := string(a.next("session/list").Params); got != `{}` {
		t.Errorf("it got %s", got)
	}
	r.cast = func(int, Spec) (map[string]part, error) { return map[string]part{"session/list": answer(`[]`)}, nil }
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Name = "odd" })
	_, err = r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "odd"})
	wantFault(t, err, fault.OfAgent, agentKind, "no list of sessions")
}

func TestCloseSession_CancelsTurnFirst(t *testing.T) {
	prompted := make(chan message, 1)
	r := newRig(t, map[string]part{
		"session/prompt": func(_ *scripted, m message) { prompted <- m },
		"session/cancel": func(a *scripted, _ message) { a.answer(<-prompted, `{"stopReason":"cancelled"}`) },
	})
	_, a := r.start()
	r.open("bot")
	begun, ended := make(chan struct{}), make(chan []string)
	go func() {
		var received []string
		_ = r.Prompt(t.Context(), promptOf("s1", "hi"), func(e *supervisorv1.Event) error {
			if received = append(received, words(e)); len(received) == 1 {
				close(begun)
			}
			return nil
		})
		ended <- received
	}()
	<-begun
	if received, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil || !received {
		t.Errorf("got %v, %v", received, err)
	}
	wantWords(t, <-ended, "started", "ended cancelled")
	a.next("session/cancel")
	a.next("session/close")
	_, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"})
	wantFault(t, err, fault.NotFound, unknownKind)
}

func TestCloseSession_UnknownToAgent(t *testing.T) {
	r := newRig(t, map[string]part{"session/close": refuse(-32002, "never heard of it")})
	_, a := r.start()
	r.open("bot")
	if res, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil || !res || len(a.forgot) != 1 {
		t.Errorf("got %v, %v; the link forgot %q", res, err, a.forgot)
	}
	r.cast = func(int, Spec) (map[string]part, error) {
		return map[string]part{"session/close": refuse(-32603, "not now")}, nil
	}
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Name = "other" })
	r.open("other")
	_, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"})
	wantFault(t, err, fault.OfAgent, agentKind, "not now")
	if _, err := r.prompt("s1", "it is still open"); err != nil {
		t.Error(err)
	}
}

// opens is an answer to session/new with all that can be set.
const opens = `{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"},{"id":"code","name":"Code"}]},` +
	`"models":{"currentModelId":"small","availableModels":[{"modelId":"small","name":"S"},{"modelId":"large","name":"L"}]}}`

// opensWithOptions has options in their place.
const opensWithOptions = `{"sessionId":"s1","modes":{"currentModeId":"ask","availableModes":[{"id":"ask","name":"Ask"}]},"configOptions":[` +
	`{"id":"m","name":"Mode","category":"mode","type":"select","currentValue":"ask","options":[{"value":"ask","name":"Ask"},{"value":"code","name":"Code"}]},` +
	`{"id":"l","name":"Model","category":"model","type":"select","currentValue":"small","options":[{"group":"g","name":"G","options":[{"value":"small","name":"S"},{"value":"large","name":"L"}]}]},` +
	`{"id":"b","name":"Brave","type":"boolean","currentValue":false}]}`

func TestSetMode_UsesMethodsWithoutOptions(t *testing.T) {
	r := newRig(t, map[string]part{"session/new": answer(opens), "session/set_mode": answer(`{}`), "session/set_model": answer(`{}`)})
	_, a := r.start()
	if s := r.open("bot"); s.GetMode() != "ask" || s.GetModel() != "small" {
		t.Errorf("opened in mode %q with model %q", s.GetMode(), s.GetModel())
	}
	ctx := t.Context()
	s, err := r.SetMode(ctx, &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "code"})
	if err != nil || s.GetMode() != "code" {
		t.Errorf("mode %q, %v", s.GetMode(), err)
	}
	s, err = r.SetModel(ctx, &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "large"})
	if err != nil || s.GetModel() != "large" {
		t.Errorf("model %q, %v", s.GetModel(), err)
	}
	if got := string(a.next("session/set_mode").Params); got != `{"sessionId":"s1","modeId":"code"}` {
		t.Errorf("it got %s", got)
	}
	if got := string(a.next("session/set_model").Params); got != `{"sessionId":"s1","modelId":"large"}` {
		t.Errorf("it got %s", got)
	}
	_, err = r.SetMode(ctx, &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "yolo"})
	wantFault(t, err, fault.Invalid, noKind, `there is no mode "yolo": there are ask, code`)
	_, err = r.SetModel(ctx, &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "huge"})
	wantFault(t, err, fault.Invalid, noKind, `there is no model "huge": there are small, large`)
}

func TestSetMode_UsesOptions(t *testing.T) {
	r := newRig(t, map[string]part{"session/new": answer(opensWithOptions), "session/set_config_option": func(a *scripted, m message) {
		now := strings.Replace(opensWithOptions[strings.Index(opensWithOptions, `"configOptions"`):], `"currentValue":"ask"`, `"currentValue":"code"`, 1)
		a.answer(m, `{`+now)
	}})
	_, a := r.start()
	r.open("bot")
	ctx := t.Context()
	s, err := r.SetMode(ctx, &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "code"})
	if err != nil || s.GetOptions()[0].GetValue() != "code" {
		t.Errorf("options %v, %v", s.GetOptions(), err)
	}
	if _, err := r.SetModel(ctx, &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "large"}); err != nil {
		t.Error(err)
	}
	enabled := &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true}
	if _, err := r.SetConfigOption(ctx, &supervisorv1.SetConfigOptionRequest{SessionId: "s1", ConfigId: "b", To: enabled}); err != nil {
		t.Error(err)
	}
	value := func(v string) *supervisorv1.SetConfigOptionRequest_Value {
		return &supervisorv1.SetConfigOptionRequest_Value{Value: v}
	}
	if _, err := r.SetConfigOption(ctx, &supervisorv1.SetConfigOptionRequest{SessionId: "s1", ConfigId: "m", To: value("ask")}); err != nil {
		t.Error(err)
	}
	for _, want := range []string{
		`{"sessionId":"s1","configId":"m","value":"code"}`,
		`{"sessionId":"s1","configId":"l","value":"large"}`,
		`{"sessionId":"s1","configId":"b","type":"boolean","value":true}`,
		`{"sessionId":"s1","configId":"m","value":"ask"}`,
	} {
		if got := string(a.next("session/set_config_option").Params); got != want {
			t.Errorf("it got %s, want %s", got, want)
		}
	}
	_, err = r.SetMode(ctx, &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "yolo"})
	wantFault(t, err, fault.Invalid, noKind, `there is no mode "yolo": there are ask, code`)
	_, err = r.SetModel(ctx, &supervisorv1.SetModelRequest{SessionId: "s1", ModelId: "huge"})
	wantFault(t, err, fault.Invalid, noKind, `there is no model "huge": there are small, large`)
	for contains, q := range map[string]*supervisorv1.SetConfigOptionRequest{
		`there is no option "x": there are m, l, b`:              {SessionId: "s1", ConfigId: "x", To: value("y")},
		`option "l" has no value "huge": there are small, large`: {SessionId: "s1", ConfigId: "l", To: value("huge")},
		"on or off, and has no":                                  {SessionId: "s1", ConfigId: "b", To: value("true")},
		"is not one that is on":                                  {SessionId: "s1", ConfigId: "m", To: enabled},
	} {
		_, err := r.SetConfigOption(ctx, q)
		wantFault(t, err, fault.Invalid, noKind, contains)
	}
}

func TestSessions_ConcurrentAgentsAndSessions(t *testing.T) {
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		id := string(m.Params[len(`{"sessionId":"`) : len(`{"sessionId":"`)+strings.IndexByte(string(m.Params[len(`{"sessionId":"`):]), '"')])
		for i := range 5 {
			a.chunk(id, fmt.Sprintf("%s-%d", id, i))
		}
		a.answer(m, `{"stopReason":"end_turn"}`)
	}})
	var wg sync.WaitGroup
	for range 5 {
		ag, _ := r.start(func(q *supervisorv1.StartAgentRequest) { q.Separate = true })
		for range 10 {
			wg.Go(func() {
				s, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: ag.GetId(), Cwd: "/w"})
				if err != nil {
					t.Error(err)
					return
				}
				req := promptOf(s.GetSessionId(), "hi")
				req.AgentId = ag.GetId()
				var events []string
				if err := r.Prompt(t.Context(), req, func(e *supervisorv1.Event) error { events = append(events, words(e)); return nil }); err != nil {
					t.Error(err)
				}
				id := s.GetSessionId()
				want := fmt.Sprintf("[started says %s-0 says %s-1 says %s-2 says %s-3 says %s-4 ended end_turn]", id, id, id, id, id)
				if got := fmt.Sprint(events); got != want {
					t.Errorf("got %s, want %s", got, want)
				}
			})
		}
	}
	wg.Wait()
}

func TestCloseSession_EndsTurnOfStuckAgent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"session/prompt": func(*scripted, message) {}})
		r.start()
		r.open("bot")
		begun, ended := make(chan struct{}), make(chan *supervisorv1.Event)
		go func() {
			var last *supervisorv1.Event
			_ = r.Prompt(t.Context(), promptOf("s1", "hi"), func(e *supervisorv1.Event) error {
				if last = e; e.GetTurnStarted() != nil {
					close(begun)
				}
				return nil
			})
			ended <- last
		}()
		<-begun
		if res, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil || !res {
			t.Errorf("got %v, %v", res, err)
		}
		if e := (<-ended).GetTurnEnded().GetError(); !strings.Contains(e.GetMessage(), "the session was closed before the turn had ended") {
			t.Errorf("the turn ended with %v", e)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
