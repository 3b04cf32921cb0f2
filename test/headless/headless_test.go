package headless_test

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
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestServe_ManyAgentsAndSessions(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	type held struct{ agent, session string }
	var (
		mu  sync.Mutex
		all []held
		wg  sync.WaitGroup
	)
	for i := range 5 {
		wg.Go(func() {
			req := p.Demo()
			req.Separate, req.Name = true, fmt.Sprintf("demo%d", i)
			resp, err := s.Agents.StartAgent(s.Ctx, req)
			if err != nil {
				t.Error(e2e.Explain(err))
				return
			}
			for range 10 {
				opened, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: resp.GetAgent().GetId(), Cwd: p.Work})
				if err != nil {
					t.Error(e2e.Explain(err))
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
			events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{AgentId: h.agent, SessionId: h.session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat " + words)}})
			if err != nil {
				t.Error(e2e.Explain(err))
				return
			}
			var message strings.Builder
			for {
				m, err := events.Recv()
				if err != nil {
					t.Errorf("the turn of %s: %v", h.session, e2e.Explain(err))
					return
				}
				e := m.GetEvent()
				if e.GetSessionId() != h.session || e.GetAgentId() != h.agent {
					t.Errorf("the turn of %s at %s received %v", h.session, h.agent, e)
				}
				message.WriteString(e.GetAgentMessage().GetContent().GetText().GetText())
				if e.GetTurnEnded() != nil {
					break
				}
			}
			if want := h.session + ": " + words; message.String() != want {
				t.Errorf("the agent sent %q, want %q", message.String(), want)
			}
		})
	}
	wg.Wait()

	list, err := s.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
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
	sessions, err := s.State.ListSessions(s.Ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || len(sessions.GetSessions()) != 50 {
		t.Errorf("there are %d sessions (%v), want 50", len(sessions.GetSessions()), err)
	}
	for _, x := range sessions.GetSessions() {
		if x.GetTurns() != 1 || x.GetTurnActive() || x.GetLastStopReason() != "end_turn" || !slices.Contains(all, held{x.GetAgentId(), x.GetSessionId()}) {
			t.Errorf("there is a session %v", x)
		}
	}
	s.Finish()
}

func TestStartAgent_ReusesRunningAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	first := s.Start(p.Demo())
	if want := "demoagent"; first.GetName() != want || !strings.HasPrefix(first.GetId(), want) || first.GetInfo().GetVersion() != "1.0.0" || first.GetCwd() != p.Work ||
		!slices.Equal(first.GetEnvNames(), []string{"DEMOAGENT_STATE"}) || first.GetState() != supervisorv1.AgentState_AGENT_STATE_RUNNING || first.GetStartTime() == nil {
		t.Errorf("the agent is %v", first)
	}
	can := first.GetInfo().GetCapabilities()
	if !can.GetLoadSession() || !can.GetResumeSession() || !can.GetForkSession() || !can.GetListSessions() || !can.GetCloseSession() || !can.GetDeleteSession() ||
		!can.GetAdditionalDirectories() || !can.GetPromptImage() || !can.GetPromptAudio() || !can.GetPromptEmbeddedContext() || !can.GetMcpHttp() || !can.GetMcpSse() || !can.GetLogout() {
		t.Errorf("the agent can %v", can)
	}
	again, err := s.Agents.StartAgent(s.Ctx, p.Demo())
	if err != nil || !again.GetReused() || again.GetAgent().GetId() != first.GetId() || again.GetAgent().GetPid() != first.GetPid() {
		t.Errorf("started again it is %v (%v), want the one that runs", again, err)
	}
	for name, change := range map[string]func(*supervisorv1.StartAgentRequest){
		"it shall be separate": func(r *supervisorv1.StartAgentRequest) { r.Separate = true },
		"its command differs":  func(r *supervisorv1.StartAgentRequest) { r.Command = append(r.Command, "-without", "audio") },
		"a variable differs":   func(r *supervisorv1.StartAgentRequest) { r.Env["MORE"] = e2e.Value("x") },
		"its folder differs":   func(r *supervisorv1.StartAgentRequest) { r.Cwd = p.Home },
		"it is attended":       func(r *supervisorv1.StartAgentRequest) { r.Attended = true },
	} {
		req := p.Demo()
		change(req)
		other, err := s.Agents.StartAgent(s.Ctx, req)
		if err != nil || other.GetReused() || other.GetAgent().GetId() == first.GetId() {
			t.Errorf("where %s the agent is %v (%v), want another one", name, other, err)
		}
	}
	if _, err := s.Agents.GetAgent(s.Ctx, &supervisorv1.GetAgentRequest{AgentId: "demoagent"}); err == nil {
		t.Error("a name that several agents have names one")
	}
	stopped, err := s.Agents.StopAgent(s.Ctx, &supervisorv1.StopAgentRequest{AgentId: first.GetId()})
	if err != nil || stopped.GetAgent().GetState() != supervisorv1.AgentState_AGENT_STATE_STOPPED || stopped.GetAgent().GetPid() != 0 {
		t.Errorf("stopped it is %v (%v)", stopped, err)
	}
	if _, err := s.Agents.GetAgent(s.Ctx, &supervisorv1.GetAgentRequest{AgentId: first.GetId()}); status.Code(err) != codes.NotFound {
		t.Errorf("an agent that was stopped is shown: %v", err)
	}
	s.Finish()
}

func TestKeyFile_ReadAtEachStart(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	key := p.File(t, "../key", "first\n")
	// It writes what it was given to a file and is an agent from then on.
	req := &supervisorv1.StartAgentRequest{
		Command: []string{"sh", "-c", `printf '%s|%s' "$KEY" "$HOME" > "$OUT"; exec "$0"`, e2e.Program("demoagent")}, Cwd: p.Work,
		Env: map[string]*supervisorv1.EnvValue{"KEY": {Source: &supervisorv1.EnvValue_File{File: key}}, "OUT": e2e.Value(p.Path("out"))},
	}
	agent := s.Start(req)
	e2e.ExpectFile(t, p.Path("out"), "first|"+p.Home)
	p.File(t, "../key", "second \n\n")
	restarted, err := s.Agents.RestartAgent(s.Ctx, &supervisorv1.RestartAgentRequest{AgentId: agent.GetId()})
	if err != nil || restarted.GetAgent().GetPid() == agent.GetPid() {
		t.Fatalf("restarted it is %v (%v)", restarted, err)
	}
	e2e.ExpectFile(t, p.Path("out"), "second|"+p.Home)
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	req.Separate = true
	if _, err := s.Agents.StartAgent(s.Ctx, req); err == nil || !strings.Contains(err.Error(), key) {
		t.Errorf("without its key the agent was started: %v", err)
	}
	s.Finish()
}

func TestStartAgent_ReportsStartError(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, p.Config(t, "agent: {initialize_timeout_seconds: 1}\n"))
	for _, c := range []struct {
		name    string
		command []string
		code    codes.Code
		kind    supervisorv1.ErrorKind
		words   []string
	}{
		{"its program is not there", []string{"no-such-agent"}, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, []string{"no-such-agent"}},
		{"its program is not there, by its path", []string{"/nowhere/agent"}, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_COMMAND_NOT_FOUND, []string{"/nowhere/agent"}},
		{"its program is invalid", []string{"/etc/passwd"}, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_SPAWN_FAILED, []string{"/etc/passwd"}},
		{"it does not answer", []string{e2e.Program("demoagent"), "-hang-initialize"}, codes.DeadlineExceeded, supervisorv1.ErrorKind_ERROR_KIND_HANDSHAKE_TIMEOUT, []string{"initialize", "1s"}},
		{"it exits", []string{e2e.Program("demoagent"), "-exit-on-initialize", "7"}, codes.Aborted, supervisorv1.ErrorKind_ERROR_KIND_CRASHED, []string{"7"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := s.Agents.StartAgent(s.Ctx, &supervisorv1.StartAgentRequest{Command: c.command, Cwd: p.Work})
			detail := e2e.ExpectError(t, err, c.code, c.kind, c.words...)
			if c.kind == supervisorv1.ErrorKind_ERROR_KIND_CRASHED && (detail.GetExitCode() != 7 || !strings.Contains(strings.Join(detail.GetStderrTail(), "\n"), "exiting, as told")) {
				t.Errorf("the detail is %v", detail)
			}
		})
	}
	for name, req := range map[string]*supervisorv1.StartAgentRequest{
		"neither preset nor command": {}, "both": {Preset: "claude", Command: []string{"x"}}, "a folder that is not absolute": {Command: []string{"x"}, Cwd: "x"},
	} {
		if _, err := s.Agents.StartAgent(s.Ctx, req); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s was refused with %v, want INVALID_ARGUMENT", name, err)
		}
	}
	s.Finish()
}

func TestCapabilities_NotOfferedIsNotRequested(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo("-without", "load,resume,list,close,delete,fork,directories,modes,config,logout,image,audio,embedded,mcp")).GetId()
	session := s.Open(agent).GetSessionId()
	blocks := func(b *supervisorv1.ContentBlock) *supervisorv1.PromptRequest {
		return &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat"), b}}
	}
	prompted := func(b *supervisorv1.ContentBlock) error {
		events, err := s.Sessions.Prompt(s.Ctx, blocks(b))
		if err == nil {
			_, err = events.Recv()
		}
		return err
	}
	for name, call := range map[string]func() error{
		"load": func() error {
			_, err := s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: "x", Cwd: p.Work})
			return err
		},
		"resume": func() error {
			_, err := s.Sessions.ResumeSession(s.Ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: "x", Cwd: p.Work})
			return err
		},
		"fork": func() error {
			_, err := s.Sessions.ForkSession(s.Ctx, &supervisorv1.ForkSessionRequest{AgentId: agent, SessionId: session})
			return err
		},
		"list": func() error {
			_, err := s.Sessions.ListStoredSessions(s.Ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent})
			return err
		},
		"delete": func() error {
			_, err := s.Sessions.DeleteSession(s.Ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: session})
			return err
		},
		"directories": func() error {
			_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.Work, AdditionalDirectories: []string{p.Home}})
			return err
		},
		"an MCP server over HTTP": func() error {
			_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: p.Work, McpServers: []*supervisorv1.McpServer{
				{Name: "m", Transport: &supervisorv1.McpServer_Http{Http: &supervisorv1.McpHttp{Url: "http://127.0.0.1:1/"}}},
			}})
			return err
		},
		"logout": func() error {
			_, err := s.Agents.Logout(s.Ctx, &supervisorv1.LogoutRequest{AgentId: agent})
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
			e2e.ExpectError(t, call(), codes.Unimplemented, supervisorv1.ErrorKind_ERROR_KIND_NOT_SUPPORTED)
		})
	}
	// Plain prompts are still accepted, and a session that cannot be closed is forgotten.
	turn := s.PromptWith(s.Ctx, blocks(&supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_ResourceLink{ResourceLink: &supervisorv1.ResourceLink{Uri: "file:///x", Name: "x"}}}))
	turn.Stopped("end_turn")
	closed, err := s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: session})
	if err != nil || closed.GetTold() {
		t.Errorf("closing returned %v (%v), want that the agent was not asked", closed, err)
	}
	events, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
	if err == nil {
		_, err = events.Recv()
	}
	e2e.ExpectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND)
	s.Finish()
}

func TestSessions_StoredByAgent(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	agent := s.Start(p.Demo()).GetId()
	other := filepath.Join(p.Home, "other")
	if err := os.Mkdir(other, 0o700); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for range 4 {
		ids = append(ids, s.Open(agent).GetSessionId())
	}
	elsewhere, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent, Cwd: other, AdditionalDirectories: []string{p.Work}})
	if err != nil || !slices.Equal(elsewhere.GetSession().GetRoots(), []string{other, p.Work}) {
		t.Fatalf("a session with two roots is %v (%v)", elsewhere, e2e.Explain(err))
	}
	s.Prompt(ids[0], "repeat the first words").Stopped("end_turn")

	list := func(cwd string) (found map[string]*supervisorv1.StoredSession, pages int) {
		t.Helper()
		found = map[string]*supervisorv1.StoredSession{}
		for cursor := ""; ; pages++ {
			page, err := s.Sessions.ListStoredSessions(s.Ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: agent, Cwd: cwd, Cursor: cursor})
			if err != nil {
				t.Fatal(e2e.Explain(err))
			}
			for _, x := range page.GetSessions() {
				found[x.GetSessionId()] = x
			}
			if cursor = page.GetNextCursor(); cursor == "" {
				return found, pages + 1
			}
		}
	}
	if all, pages := list(""); len(all) != 5 || pages != 2 || !all[ids[0]].GetOpen() || all[ids[0]].GetTitle() != "repeat the first words" || all[ids[0]].GetCwd() != p.Work || all[ids[0]].GetUpdatedAt() == "" {
		t.Errorf("on %d pages there are %v", pages, all)
	}
	if there, _ := list(other); len(there) != 1 || !slices.Equal(there[elsewhere.GetSession().GetSessionId()].GetAdditionalDirectories(), []string{p.Work}) {
		t.Errorf("in the other folder there are %v", there)
	}

	closed, err := s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: ids[0]})
	if err != nil || !closed.GetTold() {
		t.Fatalf("closing returned %v (%v)", closed, e2e.Explain(err))
	}
	if all, _ := list(""); all[ids[0]] == nil || all[ids[0]].GetOpen() {
		t.Errorf("after it was closed the session is %v", all[ids[0]])
	}
	// A loaded session has its history; a resumed one has not.
	watching := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: ids[0]})
	loaded, err := s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: ids[0], Cwd: p.Work})
	if err != nil || loaded.GetSession().GetSessionId() != ids[0] || loaded.GetSession().GetMode() != "ask" {
		t.Fatalf("loaded it is %v (%v)", loaded, e2e.Explain(err))
	}
	for _, again := range []bool{false, true} {
		if e := watching.Says(ids[0] + ": the first words"); e.GetHistory() != again {
			t.Errorf("the mark of repeated events is wrong in %v", e)
		}
	}
	watching.Until("the session was opened", func(e *supervisorv1.Event) bool { return e.GetSessionOpened().GetMethod() == "session/load" })
	turn := s.Prompt(ids[0], "repeat more")
	turn.Stopped("end_turn")
	if turn.Said() != ids[0]+": more" {
		t.Errorf("in the loaded session the agent sent %q", turn.Said())
	}
	if _, err := s.Sessions.CloseSession(s.Ctx, &supervisorv1.CloseSessionRequest{SessionId: ids[0]}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	resumed, err := s.Sessions.ResumeSession(s.Ctx, &supervisorv1.ResumeSessionRequest{AgentId: agent, SessionId: ids[0], Cwd: p.Work})
	if err != nil || resumed.GetSession().GetSessionId() != ids[0] {
		t.Fatalf("resumed it is %v (%v)", resumed, e2e.Explain(err))
	}
	s.Prompt(ids[0], "repeat again").Stopped("end_turn")

	forked, err := s.Sessions.ForkSession(s.Ctx, &supervisorv1.ForkSessionRequest{SessionId: ids[0]})
	if err != nil || forked.GetSession().GetSessionId() == ids[0] || forked.GetSession().GetRoots()[0] != p.Work {
		t.Fatalf("forked it is %v (%v)", forked, e2e.Explain(err))
	}
	s.Prompt(forked.GetSession().GetSessionId(), "repeat apart").Stopped("end_turn")

	if _, err := s.Sessions.DeleteSession(s.Ctx, &supervisorv1.DeleteSessionRequest{AgentId: agent, SessionId: ids[1]}); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	if all, _ := list(""); all[ids[1]] != nil {
		t.Errorf("after it was deleted there is %v", all[ids[1]])
	}
	_, err = s.Sessions.LoadSession(s.Ctx, &supervisorv1.LoadSessionRequest{AgentId: agent, SessionId: ids[1], Cwd: p.Work})
	e2e.ExpectError(t, err, codes.NotFound, supervisorv1.ErrorKind_ERROR_KIND_SESSION_NOT_FOUND, ids[1])
	s.Finish()
}

func TestSettings_AllForms(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"by its options": nil, "as older agents have them": {"-without", "config"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			s := p.Serve(t, nil)
			req := p.Demo(args...)
			req.Attended = true
			opened := s.Open(s.Start(req).GetId())
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
			mode, err := s.Sessions.SetMode(s.Ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "code"})
			if err != nil || mode.GetSession().GetMode() != "code" {
				t.Errorf("in the other mode it is %v (%v)", mode, e2e.Explain(err))
			}
			model, err := s.Sessions.SetModel(s.Ctx, &supervisorv1.SetModelRequest{SessionId: id, ModelId: "mini"})
			if err != nil || model.GetSession().GetModel() != "mini" {
				t.Errorf("with the other model it is %v (%v)", model, e2e.Explain(err))
			}
			_, err = s.Sessions.SetMode(s.Ctx, &supervisorv1.SetModeRequest{SessionId: id, ModeId: "fly"})
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("a mode that there is not was refused with %v, want INVALID_ARGUMENT", err)
			}
			e2e.ExpectContains(t, "the refusal", status.Convert(err).Message(), "ask", "code")
			effort, err := s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{SessionId: id, ConfigId: "effort", To: &supervisorv1.SetConfigOptionRequest_Value{Value: "high"}})
			if args != nil {
				if err == nil {
					t.Error("an option was set where none exists")
				}
			} else {
				if err != nil {
					t.Fatal(e2e.Explain(err))
				}
				thorough, err := s.Sessions.SetConfigOption(s.Ctx, &supervisorv1.SetConfigOptionRequest{SessionId: id, ConfigId: "thorough", To: &supervisorv1.SetConfigOptionRequest_Enabled{Enabled: true}})
				if err != nil {
					t.Fatal(e2e.Explain(err))
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
			s.Finish()
		})
	}
}

func TestTurn_StopReasons(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	session := s.Open(s.Start(p.Demo()).GetId()).GetSessionId()
	for prompt, want := range map[string]string{"max_tokens": "max_tokens", "max_turn_requests": "max_turn_requests", "refuse": "refusal"} {
		s.Prompt(session, prompt).Stopped(want)
	}
	for prompt, want := range map[string]supervisorv1.ErrorKind{
		"error -32603 it broke": supervisorv1.ErrorKind_ERROR_KIND_AGENT_ERROR, "error -32000 log in": supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED,
	} {
		end := s.Prompt(session, prompt).End()
		if e := end.GetError(); e.GetKind() != want || end.GetStopReason() != "" || !strings.Contains(prompt, fmt.Sprint(e.GetCode())) || !strings.Contains(e.GetData(), "scene") {
			t.Errorf("the prompt %q ended with %v, want an error of kind %s", prompt, end, want)
		}
	}

	// A caller that leaves does not end the turn, unless it asked for that.
	leaving, leave := context.WithCancel(s.Ctx)
	turn := s.PromptWith(leaving, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("sleep")}})
	turn.Says("waiting")
	second, err := s.Sessions.Prompt(s.Ctx, &supervisorv1.PromptRequest{SessionId: session, Prompt: []*supervisorv1.ContentBlock{e2e.Text("repeat")}})
	if err == nil {
		_, err = second.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a second turn was refused with %v, want FAILED_PRECONDITION", err)
	}
	watching := s.Watch(&supervisorv1.WatchSessionRequest{SessionId: session, Cursor: turn.Seen[len(turn.Seen)-1].GetCursor()})
	leave()
	if _, err := turn.Next(); err == nil {
		t.Error("a client that has left receives more")
	}
	if cancelled, err := s.Sessions.CancelPrompt(s.Ctx, &supervisorv1.CancelPromptRequest{SessionId: session}); err != nil || !cancelled.GetTurnActive() {
		t.Errorf("after the caller left, cancelling returned %v (%v), want a turn under way", cancelled, err)
	}
	turnEnds := func(e *supervisorv1.Event) bool { return e.GetTurnEnded() != nil }
	if end := watching.Until("the turn's end", turnEnds).GetTurnEnded(); end.GetStopReason() != "cancelled" {
		t.Errorf("the turn ended with %v", end)
	}

	leaving, leave = context.WithCancel(s.Ctx)
	turn = s.PromptWith(leaving, &supervisorv1.PromptRequest{SessionId: session, CancelOnDisconnect: true, Prompt: []*supervisorv1.ContentBlock{e2e.Text("sleep")}})
	turn.Says("waiting")
	leave()
	if end := watching.Until("the turn's end", turnEnds).GetTurnEnded(); end.GetStopReason() != "cancelled" {
		t.Errorf("the turn of a caller that left ended with %v, want cancelled", end)
	}
	s.Finish()
}

func TestLogin_ByPage(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	req := p.Demo("-auth")
	req.Attended = true
	agent := s.Start(req)
	var methods []string
	for _, m := range agent.GetInfo().GetAuthMethods() {
		methods = append(methods, m.GetId()+" "+m.GetType())
	}
	if !slices.Equal(methods, []string{"browser agent", "terminal terminal"}) {
		t.Errorf("the ways to log in are %q", methods)
	}
	_, err := s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work})
	e2e.ExpectError(t, err, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED, "log in")

	steps, err := s.Agents.Authenticate(s.Ctx, &supervisorv1.AuthenticateRequest{AgentId: agent.GetId(), MethodId: "terminal"})
	if err == nil {
		_, err = steps.Recv()
	}
	if status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a login on a terminal was refused with %v, want FAILED_PRECONDITION", err)
	}
	e2e.ExpectContains(t, "the refusal", status.Convert(err).Message(), "on a terminal: log in by running")

	steps, err = s.Agents.Authenticate(s.Ctx, &supervisorv1.AuthenticateRequest{AgentId: agent.GetId(), MethodId: "browser"})
	if err != nil {
		t.Fatal(err)
	}
	step, err := steps.Recv()
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	page := step.GetQuestion()
	if e := page.GetElicitation(); e.GetMode() != "url" || e.GetUrl() != "https://example.com/login?code=demo" || e.GetMessage() != "Please log in." {
		t.Fatalf("the first step is %v, want a page", step)
	}
	if _, err := s.Approvals.AnswerApproval(s.Ctx, e2e.Yes(page, "ada")); err != nil {
		t.Fatal(e2e.Explain(err))
	}
	if step, err = steps.Recv(); err != nil || step.GetDone().GetMethodId() != "browser" {
		t.Fatalf("the last step is %v (%v)", step, err)
	}
	s.Prompt(s.Open(agent.GetId()).GetSessionId(), "repeat").Stopped("end_turn")
	if _, err := s.Agents.Logout(s.Ctx, &supervisorv1.LogoutRequest{AgentId: agent.GetId()}); err != nil {
		t.Error(e2e.Explain(err))
	}
	_, err = s.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work})
	e2e.ExpectError(t, err, codes.FailedPrecondition, supervisorv1.ErrorKind_ERROR_KIND_AUTH_REQUIRED)
	s.Finish()
}

func TestClientCapabilities_DependOnAttended(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	s := p.Serve(t, nil)
	for _, attended := range []bool{false, true} {
		req := p.Demo()
		req.Attended = attended
		raw := s.Start(req).GetInfo().GetRaw()
		var info struct {
			AgentCapabilities struct {
				Meta struct{ ClientCapabilities map[string]any } `json:"_meta"`
			}
		}
		wire.Message{Result: []byte(raw)}.Decode(t, &info)
		offered := info.AgentCapabilities.Meta.ClientCapabilities
		if e2e.Dig(offered, "fs", "readTextFile") != true || e2e.Dig(offered, "fs", "writeTextFile") != true || e2e.Dig(offered, "terminal") != true {
			t.Errorf("the agent is offered %v", offered)
		}
		for what, got := range map[string]any{
			"forms": e2e.Dig(offered, "elicitation", "form"), "pages": e2e.Dig(offered, "elicitation", "url"), "options that are on or off": e2e.Dig(offered, "session", "configOptions", "boolean"),
		} {
			if (got != nil) != attended {
				t.Errorf("with attended %v the agent is offered %s: %v", attended, what, got)
			}
		}
	}
	s.Finish()
}
