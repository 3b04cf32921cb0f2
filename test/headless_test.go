package e2e_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

func TestFiveAgentsAndFiftySessionsAreNotMixedUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	type held struct{ agent, session string }
	var (
		mu  sync.Mutex
		all []held
		wg  sync.WaitGroup
	)
	for i := range 5 {
		wg.Go(func() {
			req := p.demo()
			req.Separate, req.Name = true, fmt.Sprintf("demo%d", i)
			resp, err := s.agents.StartAgent(s.ctx, req)
			if err != nil {
				t.Error(explain(err))
				return
			}
			for range 10 {
				opened, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: resp.GetAgent().GetId(), Cwd: p.work})
				if err != nil {
					t.Error(explain(err))
					return
				}
				mu.Lock()
				all = append(all, held{resp.GetAgent().GetId(), opened.GetSession().GetSessionId()})
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	for i, h := range all {
		wg.Go(func() {
			words := fmt.Sprintf("words %d of %s", i, h.session)
			events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{AgentId: h.agent, SessionId: h.session, Prompt: []*supervisorv1.ContentBlock{text("repeat " + words)}})
			if err != nil {
				t.Error(explain(err))
				return
			}
			var said strings.Builder
			for {
				m, err := events.Recv()
				if err != nil {
					t.Errorf("the turn of %s: %v", h.session, explain(err))
					return
				}
				e := m.GetEvent()
				if e.GetSessionId() != h.session || e.GetAgentId() != h.agent {
					t.Errorf("the turn of %s at %s was told %v", h.session, h.agent, e)
				}
				said.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
				if e.GetTurnEnded() != nil {
					break
				}
			}
			if want := h.session + ": " + words; said.String() != want {
				t.Errorf("the agent said %q, want %q", said.String(), want)
			}
		})
	}
	wg.Wait()

	list, err := s.agents.ListAgents(s.ctx, &supervisorv1.ListAgentsRequest{})
	if err != nil || len(list.GetAgents()) != 5 {
		t.Fatalf("the agents are %v (%v), want 5", list, err)
	}
	var ids []string
	for _, a := range list.GetAgents() {
		if a.GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING || a.GetPid() == 0 || len(a.GetSessionIds()) != 10 {
			t.Errorf("there is an agent %v", a)
		}
		ids = append(ids, a.GetId())
	}
	if slices.Sort(ids); len(slices.Compact(ids)) != 5 {
		t.Errorf("agents share an id: %q", ids)
	}
	sessions, err := s.state.ListSessions(s.ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 50 {
		t.Errorf("there are %d sessions (%v), want 50", len(sessions.GetSessions()), err)
	}
	for _, x := range sessions.GetSessions() {
		if x.GetTurns() != 1 || x.GetTurnActive() || x.GetLastStopReason() != "end_turn" || !slices.Contains(all, held{x.GetAgentId(), x.GetSessionId()}) {
			t.Errorf("there is a session %v", x)
		}
	}
	s.finish()
}

func TestAnAgentThatRunsIsUsedAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	first := s.start(p.demo())
	if want := "demoagent"; first.GetName() != want || !strings.HasPrefix(first.GetId(), want) || first.GetInfo().GetVersion() != "1.0.0" || first.GetCwd() != p.work ||
		!slices.Equal(first.GetEnvNames(), []string{"DEMOAGENT_STATE"}) || first.GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING || first.GetStartTime() == nil {
		t.Errorf("the agent is %v", first)
	}
	can := first.GetInfo().GetCapabilities()
	if !can.GetLoadSession() || !can.GetResumeSession() || !can.GetForkSession() || !can.GetListSessions() || !can.GetCloseSession() || !can.GetDeleteSession() ||
		!can.GetAdditionalDirectories() || !can.GetPromptImage() || !can.GetPromptAudio() || !can.GetPromptEmbeddedContext() || !can.GetMcpHttp() || !can.GetMcpSse() || !can.GetLogout() {
		t.Errorf("the agent can %v", can)
	}
	again, err := s.agents.StartAgent(s.ctx, p.demo())
	if err != nil || !again.GetReused() || again.GetAgent().GetId() != first.GetId() || again.GetAgent().GetPid() != first.GetPid() {
		t.Errorf("started again it is %v (%v), want the one that runs", again, err)
	}
	for name, change := range map[string]func(*supervisorv1.StartAgentRequest){
		"it shall be separate": func(r *supervisorv1.StartAgentRequest) { r.Separate = true },
		"its command differs":  func(r *supervisorv1.StartAgentRequest) { r.Command = append(r.Command, "-without", "audio") },
		"a variable differs":   func(r *supervisorv1.StartAgentRequest) { r.Env["MORE"] = value("x") },
		"its folder differs":   func(r *supervisorv1.StartAgentRequest) { r.Cwd = p.home },
		"it is attended":       func(r *supervisorv1.StartAgentRequest) { r.Attended = true },
	} {
		req := p.demo()
		change(req)
		other, err := s.agents.StartAgent(s.ctx, req)
		if err != nil || other.GetReused() || other.GetAgent().GetId() == first.GetId() {
			t.Errorf("where %s the agent is %v (%v), want another one", name, other, err)
		}
	}
	if _, err := s.agents.GetAgent(s.ctx, &supervisorv1.GetAgentRequest{AgentId: "demoagent"}); err == nil {
		t.Error("a name that several agents have names one")
	}
	stopped, err := s.agents.StopAgent(s.ctx, &supervisorv1.StopAgentRequest{AgentId: first.GetId()})
	if err != nil || stopped.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_STOPPED || stopped.GetAgent().GetPid() != 0 {
		t.Errorf("stopped it is %v (%v)", stopped, err)
	}
	if _, err := s.agents.GetAgent(s.ctx, &supervisorv1.GetAgentRequest{AgentId: first.GetId()}); status.Code(err) != codes.NotFound {
		t.Errorf("an agent that was stopped is shown: %v", err)
	}
	s.finish()
}

func TestAKeyComesFromAFileAtEachStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	key := p.file(t, "../key", "first\n")
	// It writes what it was given to a file and is an agent from then on.
	req := &supervisorv1.StartAgentRequest{
		Command: []string{"sh", "-c", `printf '%s|%s' "$KEY" "$HOME" > "$OUT"; exec "$0"`, program("demoagent")}, Cwd: p.work,
		Env: map[string]*supervisorv1.EnvValue{"KEY": {Source: &supervisorv1.EnvValue_File{File: key}}, "OUT": value(p.path("out"))},
	}
	agent := s.start(req)
	expectFile(t, p.path("out"), "first|"+p.home)
	p.file(t, "../key", "second \n\n")
	restarted, err := s.agents.RestartAgent(s.ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()})
	if err != nil || restarted.GetAgent().GetPid() == agent.GetPid() {
		t.Fatalf("restarted it is %v (%v)", restarted, err)
	}
	expectFile(t, p.path("out"), "second|"+p.home)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	req.Separate = true
	if _, err := s.agents.StartAgent(s.ctx, req); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("without its key the agent was started: %v", err)
	}
	s.finish()
}

func expectFile(t *testing.T, path, want string) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil || string(got) != want {
		t.Errorf("%s holds %q (%v), want %q", path, got, err, want)
	}
}

func TestAnAgentThatDoesNotStartSaysWhy(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, p.config(t, "agent: {initialize_timeout_seconds: 1}\n"))
	for _, c := range []struct {
		name    string
		command []string
		code    codes.Code
		kind    supervisorv1.ErrorKind
		words   []string
	}{
		{"its program is not there", []string{"no-such-agent"}, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, []string{"no-such-agent"}},
		{"its program is not there, by its path", []string{"/nowhere/agent"}, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, []string{"/nowhere/agent"}},
		{"its program is none", []string{"/etc/passwd"}, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED, []string{"/etc/passwd"}},
		{"it does not answer", []string{program("demoagent"), "-hang-initialize"}, codes.DeadlineExceeded, supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT, []string{"initialize", "1s"}},
		{"it exits", []string{program("demoagent"), "-exit-on-initialize", "7"}, codes.Aborted, supervisorv1.ErrorKind_ERROR_KIND_CRASHED, []string{"7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.agents.StartAgent(s.ctx, &supervisorv1.StartAgentRequest{Command: c.command, Cwd: p.work})
			detail := expectError(t, err, c.code, c.kind, c.words...)
			if c.kind == supervisorv1.ErrorKind_ERROR_KIND_CRASHED && (detail.GetExitCode() != 7 || !strings.Contains(strings.Join(detail.GetStderrTail(), "\n"), "exiting, as told")) {
				t.Errorf("the detail is %v", detail)
			}
		})
	}
	for name, req := range map[string]*supervisorv1.StartAgentRequest{
		"neither preset nor command": {}, "both": {Preset: "claude", Command: []string{"x"}}, "a folder that is not absolute": {Command: []string{"x"}, Cwd: "x"},
	} {
		if _, err := s.agents.StartAgent(s.ctx, req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
		}
	}
	s.finish()
}

func TestWhatAnAgentDoesNotOfferIsNotAskedOfIt(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo("-without", "load,resume,list,close,delete,fork,directories,modes,config,logout,image,audio,embedded,mcp")).GetId()
	session := s.open(agent).GetSessionId()
	blocks := func(b *supervisorv1.ContentBlock) *supervisorv1.PromptRequest {
		return &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("repeat"), b}}
	}
	prompted := func(b *supervisorv1.ContentBlock) error {
		events, err := s.sessions.Prompt(s.ctx, blocks(b))
		if err == nil {
			_, err = events.Recv()
		}
		return err
	}
	for name, call := range map[string]func() error{
		"load": func() error {
			_, err := s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: "x", Cwd: p.work})
			return err
		},
		"resume": func() error {
			_, err := s.sessions.ResumeSession(s.ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: "x", Cwd: p.work})
			return err
		},
		"fork": func() error {
			_, err := s.sessions.ForkSession(s.ctx, &supervisorv1.ForkSessionRequest{AgentId: agent, SessionId: session})
			return err
		},
		"list": func() error {
			_, err := s.sessions.ListStoredSessions(s.ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent})
			return err
		},
		"delete": func() error {
			_, err := s.sessions.DeleteSession(s.ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: session})
			return err
		},
		"directories": func() error {
			_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.work, AdditionalDirectories: []string{p.home}})
			return err
		},
		"an MCP server over HTTP": func() error {
			_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.work, McpServers: []*supervisorv1.McpServer{
				{Name: "m", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "http://127.0.0.1:1/"}}},
			}})
			return err
		},
		"logout": func() error {
			_, err := s.agents.Logout(s.ctx, &supervisorv1.LogoutRequest{AgentId: agent})
			return err
		},
		"an image": func() error {
			return prompted(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Image{Image: &supervisorv1.ImageContent{Data: []byte("x"), MimeType: "image/png"}}})
		},
		"a sound": func() error {
			return prompted(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Audio{Audio: &supervisorv1.AudioContent{Data: []byte("x"), MimeType: "audio/wav"}}})
		},
		"a resource": func() error {
			return prompted(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{Uri: "file:///x", Contents: &supervisorv1.EmbeddedResource_Text{Text: "x"}}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			expectError(t, call(), codes.Unimplemented, supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED)
		})
	}
	// Plain ones go on, and a session that cannot be closed is forgotten.
	turn := s.promptWith(s.ctx, blocks(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: "file:///x", Name: "x"}}}))
	turn.stopped("end_turn")
	closed, err := s.sessions.CloseSession(s.ctx, &supervisorv1.CloseSessionRequest{SessionId: session})
	if err != nil || closed.GetTold() {
		t.Errorf("closing came to %v (%v), want that the agent was not told", closed, err)
	}
	events, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
	if err == nil {
		_, err = events.Recv()
	}
	expectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
	s.finish()
}

func TestSessionsThatAnAgentHasStored(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	agent := s.start(p.demo()).GetId()
	other := filepath.Join(p.home, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 4 {
		ids = append(ids, s.open(agent).GetSessionId())
	}
	elsewhere, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: other, AdditionalDirectories: []string{p.work}})
	if err != nil || !slices.Equal(elsewhere.GetSession().GetRoots(), []string{other, p.work}) {
		t.Fatalf("a session with two roots is %v (%v)", elsewhere, explain(err))
	}
	s.prompt(ids[0], "repeat the first words").stopped("end_turn")

	list := func(cwd string) (found map[string]*supervisorv1.StoredSession, pages int) {
		t.Helper()
		found = map[string]*supervisorv1.StoredSession{}
		for cursor := ""; ; pages++ {
			page, err := s.sessions.ListStoredSessions(s.ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent, Cwd: cwd, Cursor: cursor})
			if err != nil {
				t.Fatal(explain(err))
			}
			for _, x := range page.GetSessions() {
				found[x.GetSessionId()] = x
			}
			if cursor = page.GetNextCursor(); cursor == "" {
				return found, pages + 1
			}
		}
	}
	if all, pages := list(""); len(all) != 5 || pages != 2 || !all[ids[0]].GetOpen() || all[ids[0]].GetTitle() != "repeat the first words" || all[ids[0]].GetCwd() != p.work || all[ids[0]].GetUpdatedAt() == "" {
		t.Errorf("on %d pages there are %v", pages, all)
	}
	if there, _ := list(other); len(there) != 1 || !slices.Equal(there[elsewhere.GetSession().GetSessionId()].GetAdditionalDirectories(), []string{p.work}) {
		t.Errorf("in the other folder there are %v", there)
	}

	closed, err := s.sessions.CloseSession(s.ctx, &supervisorv1.CloseSessionRequest{SessionId: ids[0]})
	if err != nil || !closed.GetTold() {
		t.Fatalf("closing came to %v (%v)", closed, explain(err))
	}
	if all, _ := list(""); all[ids[0]] == nil || all[ids[0]].GetOpen() {
		t.Errorf("after it was closed the session is %v", all[ids[0]])
	}
	// Loaded, it tells its history; resumed, it does not.
	watching := s.watch(&supervisorv1.WatchSessionRequest{SessionId: ids[0]})
	loaded, err := s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: ids[0], Cwd: p.work})
	if err != nil || loaded.GetSession().GetSessionId() != ids[0] || loaded.GetSession().GetMode() != "ask" {
		t.Fatalf("loaded it is %v (%v)", loaded, explain(err))
	}
	for _, again := range []bool{false, true} {
		if e := watching.says(ids[0] + ": the first words"); e.GetHistory() != again {
			t.Errorf("whether it is told again is wrong in %v", e)
		}
	}
	watching.until("the session was opened", func(e *supervisorv1.Event) bool { return e.GetSessionOpened().GetMethod() == "session/load" })
	turn := s.prompt(ids[0], "repeat more")
	turn.stopped("end_turn")
	if turn.said() != ids[0]+": more" {
		t.Errorf("in the loaded session the agent said %q", turn.said())
	}
	if _, err := s.sessions.CloseSession(s.ctx, &supervisorv1.CloseSessionRequest{SessionId: ids[0]}); err != nil {
		t.Fatal(explain(err))
	}
	resumed, err := s.sessions.ResumeSession(s.ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: ids[0], Cwd: p.work})
	if err != nil || resumed.GetSession().GetSessionId() != ids[0] {
		t.Fatalf("resumed it is %v (%v)", resumed, explain(err))
	}
	s.prompt(ids[0], "repeat again").stopped("end_turn")

	forked, err := s.sessions.ForkSession(s.ctx, &supervisorv1.ForkSessionRequest{SessionId: ids[0]})
	if err != nil || forked.GetSession().GetSessionId() == ids[0] || forked.GetSession().GetRoots()[0] != p.work {
		t.Fatalf("forked it is %v (%v)", forked, explain(err))
	}
	s.prompt(forked.GetSession().GetSessionId(), "repeat apart").stopped("end_turn")

	if _, err := s.sessions.DeleteSession(s.ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: ids[1]}); err != nil {
		t.Fatal(explain(err))
	}
	if all, _ := list(""); all[ids[1]] != nil {
		t.Errorf("after it was deleted there is %v", all[ids[1]])
	}
	_, err = s.sessions.LoadSession(s.ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: ids[1], Cwd: p.work})
	expectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, ids[1])
	s.finish()
}

func TestSettingsAreMadeHoweverAnAgentHasThem(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"by its options": nil, "as older agents have them": {"-without", "config"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := p.serve(t, nil)
			req := p.demo(args...)
			req.Attended = true
			opened := s.open(s.start(req).GetId())
			id := opened.GetSessionId()
			var modes, models []string
			for _, m := range opened.GetModes() {
				modes = append(modes, m.GetId()+" "+m.GetName())
			}
			for _, m := range opened.GetModels() {
				models = append(models, m.GetValue()+" "+m.GetName())
			}
			for _, o := range opened.GetOptions() {
				if o.GetId() == "model" {
					for _, c := range o.GetChoices() {
						models = append(models, c.GetValue()+" "+c.GetName())
					}
				}
			}
			if opened.GetMode() != "ask" || opened.GetModel() != "maxi" || !slices.Equal(modes, []string{"ask Ask", "code Code"}) || !slices.Equal(models, []string{"mini Mini", "maxi Maxi"}) {
				t.Errorf("the session is %v with the models %q", opened, models)
			}
			mode, err := s.sessions.SetMode(s.ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"})
			if err != nil || mode.GetSession().GetMode() != "code" {
				t.Errorf("in the other mode it is %v (%v)", mode, explain(err))
			}
			model, err := s.sessions.SetModel(s.ctx, &supervisorv1.SetModelRequest{SessionId: id, ModelId: "mini"})
			if err != nil || model.GetSession().GetModel() != "mini" {
				t.Errorf("with the other model it is %v (%v)", model, explain(err))
			}
			_, err = s.sessions.SetMode(s.ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "fly"})
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("a mode that there is not was refused with %v, want INVALID_ARGUMENT", err)
			}
			expectContains(t, "the refusal", status.Convert(err).Message(), "ask", "code")
			effort, err := s.sessions.SetConfigOption(s.ctx, &supervisorv1.SetConfigOptionRequest{SessionId: id, ConfigId: "effort", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "high"}})
			if args != nil {
				if err == nil {
					t.Error("an option was set where there is none")
				}
			} else {
				if err != nil {
					t.Fatal(explain(err))
				}
				thorough, err := s.sessions.SetConfigOption(s.ctx, &supervisorv1.SetConfigOptionRequest{SessionId: id, ConfigId: "thorough", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true}})
				if err != nil {
					t.Fatal(explain(err))
				}
				values := map[string]string{}
				for _, o := range thorough.GetSession().GetOptions() {
					values[o.GetId()] = fmt.Sprint(o.GetValue(), o.GetEnabled())
				}
				for id, want := range map[string]string{"mode": "codefalse", "model": "minifalse", "effort": "highfalse", "thorough": "true"} {
					if values[id] != want {
						t.Errorf("the option %s is %q, want %q (%v)", id, values[id], want, effort)
					}
				}
			}
			s.finish()
		})
	}
}

func TestATurnEndsAsTheAgentSays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	session := s.open(s.start(p.demo()).GetId()).GetSessionId()
	for prompt, want := range map[string]string{"max_tokens": "max_tokens", "max_turn_requests": "max_turn_requests", "refuse": "refusal"} {
		s.prompt(session, prompt).stopped(want)
	}
	for prompt, want := range map[string]supervisorv1.ErrorKind{
		"error -32603 it broke": supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, "error -32000 log in": supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED,
	} {
		end := s.prompt(session, prompt).end()
		if e := end.GetError(); e.GetKind() != want || end.GetStopReason() != "" || !strings.Contains(prompt, fmt.Sprint(e.GetCode())) || !strings.Contains(e.GetData(), "scene") {
			t.Errorf("the prompt %q ended with %v, want an error of kind %s", prompt, end, want)
		}
	}

	// A caller that leaves does not end the turn, unless it asked for that.
	leaving, leave := context.WithCancel(s.ctx)
	turn := s.promptWith(leaving, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("sleep")}})
	turn.says("waiting")
	second, err := s.sessions.Prompt(s.ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{text("repeat")}})
	if err == nil {
		_, err = second.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second turn was refused with %v, want FAILED_PRECONDITION", err)
	}
	watching := s.watch(&supervisorv1.WatchSessionRequest{SessionId: session, Cursor: turn.seen[len(turn.seen)-1].GetCursor()})
	leave()
	if _, err := turn.next(); err == nil {
		t.Error("who has left is told more")
	}
	if cancelled, err := s.sessions.CancelPrompt(s.ctx, &supervisorv1.CancelPromptRequest{SessionId: session}); err != nil || !cancelled.GetTurnActive() {
		t.Errorf("after the caller left, cancelling came to %v (%v), want a turn under way", cancelled, err)
	}
	turnEnds := func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil }
	if end := watching.until("the turn's end", turnEnds).GetTurnEnded(); end.GetStopReason() != "cancelled" {
		t.Errorf("the turn ended with %v", end)
	}

	leaving, leave = context.WithCancel(s.ctx)
	turn = s.promptWith(leaving, &supervisorv1.PromptRequest{SessionId: session, CancelOnDisconnect: true, Prompt: []*supervisorv1.ContentBlock{text("sleep")}})
	turn.says("waiting")
	leave()
	if end := watching.until("the turn's end", turnEnds).GetTurnEnded(); end.GetStopReason() != "cancelled" {
		t.Errorf("the turn of a caller that left ended with %v, want cancelled", end)
	}
	s.finish()
}

func TestAPersonLogsInByAPage(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	req := p.demo("-auth")
	req.Attended = true
	agent := s.start(req)
	var methods []string
	for _, m := range agent.GetInfo().GetAuthMethods() {
		methods = append(methods, m.GetId()+" "+m.GetType())
	}
	if !slices.Equal(methods, []string{"browser agent", "terminal terminal"}) {
		t.Errorf("the ways to log in are %q", methods)
	}
	_, err := s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.work})
	expectError(t, err, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, "log in")

	steps, err := s.agents.Authenticate(s.ctx, &supervisorv1.AuthenticateRequest{AgentId: agent.GetId(), MethodId: "terminal"})
	if err == nil {
		_, err = steps.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a login on a terminal was refused with %v, want FAILED_PRECONDITION", err)
	}
	expectContains(t, "the refusal", status.Convert(err).Message(), "on a terminal: log in by running")

	steps, err = s.agents.Authenticate(s.ctx, &supervisorv1.AuthenticateRequest{AgentId: agent.GetId(), MethodId: "browser"})
	if err != nil {
		t.Fatal(err)
	}
	step, err := steps.Recv()
	if err != nil {
		t.Fatal(explain(err))
	}
	page := step.GetQuestion()
	if e := page.GetElicitation(); e.GetMode() != "url" || e.GetUrl() != "https://example.com/login?code=demo" || e.GetMessage() != "Please log in." {
		t.Fatalf("the first step is %v, want a page", step)
	}
	if _, err := s.approvals.AnswerApproval(s.ctx, yes(page, "ada")); err != nil {
		t.Fatal(explain(err))
	}
	if step, err = steps.Recv(); err != nil || step.GetDone().GetMethodId() != "browser" {
		t.Fatalf("the last step is %v (%v)", step, err)
	}
	s.prompt(s.open(agent.GetId()).GetSessionId(), "repeat").stopped("end_turn")
	if _, err := s.agents.Logout(s.ctx, &supervisorv1.LogoutRequest{AgentId: agent.GetId()}); err != nil {
		t.Error(explain(err))
	}
	_, err = s.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.work})
	expectError(t, err, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED)
	s.finish()
}

func TestWhatIsOfferedDependsOnWhoIsThere(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	s := p.serve(t, nil)
	for _, attended := range []bool{false, true} {
		req := p.demo()
		req.Attended = attended
		raw := s.start(req).GetInfo().GetRaw()
		var info struct {
			AgentCapabilities struct {
				Meta struct{ ClientCapabilities map[string]any } `json:"_meta"`
			}
		}
		wire.Message{Result: []byte(raw)}.Decode(t, &info)
		offered := info.AgentCapabilities.Meta.ClientCapabilities
		if dig(offered, "fs", "readTextFile") != true || dig(offered, "fs", "writeTextFile") != true || dig(offered, "terminal") != true {
			t.Errorf("the agent is offered %v", offered)
		}
		for what, got := range map[string]any{
			"forms": dig(offered, "elicitation", "form"), "pages": dig(offered, "elicitation", "url"), "options that are on or off": dig(offered, "session", "configOptions", "boolean"),
		} {
			if (got != nil) != attended {
				t.Errorf("with attended %v the agent is offered %s: %v", attended, what, got)
			}
		}
	}
	s.finish()
}
