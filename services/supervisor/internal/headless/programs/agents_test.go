package programs

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	configv1 "github.com/acphost/acphost/proto/acphost/config/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

func TestStartAgent_ConcurrentCallsShareAgent(t *testing.T) {
	release := make(chan struct{})
	r := newRig(t, map[string]part{"initialize": func(a *scripted, m message) {
		<-release
		a.answer(m, everything)
	}})
	req := &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot"}, Cwd: "/srv", Env: map[string]*supervisorv1.EnvValue{
		"A": {Source: &supervisorv1.EnvValue_Value{Value: "1"}}, "PATH": {Source: &supervisorv1.EnvValue_Value{Value: "/opt/bin"}},
	}}
	var wg sync.WaitGroup
	got := make([]*supervisorv1.StartAgentResponse, 8)
	for i := range got {
		wg.Go(func() {
			var err error
			if got[i], err = r.StartAgent(t.Context(), req); err != nil {
				t.Error(err)
			}
		})
	}
	a := r.latest()
	close(release)
	wg.Wait()
	reused := 0
	for _, resp := range got {
		if resp.GetAgent().GetId() != "bot-1" {
			t.Errorf("agent %q, want the one", resp.GetAgent().GetId())
		}
		if resp.GetReused() {
			reused++
		}
	}
	if reused != len(got)-1 {
		t.Errorf("%d were notified that it ran already, want all but one", reused)
	}
	if want := []string{"HOME=/home/u", "A=1", "PATH=/opt/bin"}; !slices.Equal(a.spec.Env, want) || a.spec.Dir != "/srv" {
		t.Errorf("it got environment %q in %q, want %q in /srv", a.spec.Env, a.spec.Dir, want)
	}
	ag := got[0].GetAgent()
	if ag.GetState() != running || ag.GetPid() != 1001 || ag.GetInfo().GetName() != "scripted" || !slices.Equal(ag.GetEnvNames(), []string{"A", "PATH"}) ||
		ag.GetCwd() != "/srv" || !slices.Equal(ag.GetStderrTail(), []string{"a line of stderr"}) || ag.GetName() != "bot" {
		t.Errorf("it is shown as %v", ag)
	}
	for _, change := range []func(*supervisorv1.StartAgentRequest){
		func(q *supervisorv1.StartAgentRequest) { q.Separate = true },
		func(q *supervisorv1.StartAgentRequest) { q.Attended = true },
		func(q *supervisorv1.StartAgentRequest) { q.Name = "other" },
		func(q *supervisorv1.StartAgentRequest) { q.Cwd = "" },
	} {
		other := &supervisorv1.StartAgentRequest{Command: req.GetCommand(), Cwd: req.GetCwd(), Env: req.GetEnv()}
		change(other)
		resp, err := r.StartAgent(t.Context(), other)
		if err != nil || resp.GetReused() || resp.GetAgent().GetId() == "bot-1" {
			t.Errorf("another specification got %v, %v, want an agent of its own", resp.GetAgent().GetId(), err)
		}
	}
	if n := len(r.ListAgents()); n != 5 {
		t.Errorf("%d agents, want 5", n)
	}
}

func TestInitialize_SendsClientCapabilities(t *testing.T) {
	r := newRig(t, nil)
	_, a := r.start()
	want := `{"protocolVersion":1,"clientCapabilities":{"session":{"notices":{},"compaction":{}}},"clientInfo":{"name":"acphost","title":"acphost","version":"0.0.1"}}`
	if got := string(a.next("initialize").Params); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	_, a = r.start(func(q *supervisorv1.StartAgentRequest) { q.Attended = true })
	want = `{"protocolVersion":1,"clientCapabilities":{"elicitation":{"form":{},"url":{}},"session":{"notices":{},"compaction":{},"configOptions":{"boolean":{}}}},"clientInfo":{"name":"acphost","title":"acphost","version":"0.0.1"}}`
	if got := string(a.next("initialize").Params); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestStartAgent_RejectsInvalidRequests(t *testing.T) {
	r := newRig(t, nil)
	bot := []string{"bot"}
	for name, tt := range map[string]struct {
		req      *supervisorv1.StartAgentRequest
		class    fault.Class
		contains string
	}{
		"name":           {&supervisorv1.StartAgentRequest{Command: bot, Name: "a/b"}, fault.Invalid, "the name"},
		"huge":           {&supervisorv1.StartAgentRequest{Command: []string{"a", strings.Repeat("x", 1<<20)}}, fault.Invalid, "more than"},
		"unknown preset": {&supervisorv1.StartAgentRequest{Preset: "p"}, fault.NotFound, "no presets are known"},
	} {
		_, err := r.StartAgent(t.Context(), tt.req)
		t.Run(name, func(t *testing.T) { wantFault(t, err, tt.class, noKind, tt.contains) })
	}
	if n := len(r.ListAgents()); n != 0 {
		t.Errorf("%d agents are there", n)
	}
}

func TestStartAgent_PresetGivesCommandAndEnvironment(t *testing.T) {
	r := newRig(t, nil, func(o *Options) {
		o.Agents.Config = &configv1.Agent{Env: map[string]*configv1.EnvValue{
			"CONF": {Value: "c"}, "MODE": {Value: "c"},
		}}
		o.Agents.Presets = func(_ context.Context, name string) ([]string, []string, string, error) {
			if name != "claude" && name != "claude-code" {
				return nil, nil, "", errors.New("no agent is known by that name")
			}
			return []string{"npx", "claude-acp"}, []string{"MODE=preset", "LEVEL=preset"}, "claude", nil
		}
	})
	ag, a := r.start(func(q *supervisorv1.StartAgentRequest) {
		q.Command, q.Preset, q.Args = nil, "claude-code", []string{"--fast"}
		q.Env = map[string]*supervisorv1.EnvValue{"LEVEL": {Source: &supervisorv1.EnvValue_Value{Value: "mine"}}}
	})
	if ag.GetId() != "claude-1" || ag.GetPreset() != "claude" || !slices.Equal(ag.GetCommand(), []string{"npx", "claude-acp", "--fast"}) {
		t.Errorf("got %v", ag)
	}
	if want := []string{"PATH=/bin", "HOME=/home/u", "CONF=c", "LEVEL=mine", "MODE=preset"}; !slices.Equal(a.spec.Env, want) {
		t.Errorf("it got %q, want %q", a.spec.Env, want)
	}
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Preset: "nobody"})
	wantFault(t, err, fault.NotFound, noKind, "nobody", "no agent is known")
}

func TestKeys_AreReadAtEachStart(t *testing.T) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	write := func(s string) {
		if err := os.WriteFile(key, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("one \n\n")
	r := newRig(t, nil)
	withKey := func(path string) func(*supervisorv1.StartAgentRequest) {
		return func(q *supervisorv1.StartAgentRequest) {
			q.Env = map[string]*supervisorv1.EnvValue{"KEY": {Source: &supervisorv1.EnvValue_File{File: path}}}
		}
	}
	ag, a := r.start(withKey(key))
	if !slices.Contains(a.spec.Env, "KEY=one") {
		t.Errorf("it got %q", a.spec.Env)
	}
	write("two")
	if _, err := r.RestartAgent(t.Context(), ag.GetId()); err != nil {
		t.Fatal(err)
	}
	if a = r.latest(); !slices.Contains(a.spec.Env, "KEY=two") {
		t.Errorf("it got %q", a.spec.Env)
	}
	fifo := filepath.Join(dir, "fifo")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	large, zero := filepath.Join(dir, "large"), filepath.Join(dir, "zero")
	if err := errors.Join(os.WriteFile(large, make([]byte, 64<<10+1), 0o600), os.WriteFile(zero, []byte("a\x00b"), 0o600)); err != nil {
		t.Fatal(err)
	}
	for path, contains := range map[string]string{
		filepath.Join(dir, "missing"): "no such file", dir: "not a regular file", fifo: "not a regular file", large: "is longer than", zero: "zero byte",
	} {
		req := &supervisorv1.StartAgentRequest{Command: []string{"bot"}}
		withKey(path)(req)
		_, err := r.StartAgent(t.Context(), req)
		wantFault(t, err, fault.OfAgent, spawnKind, "KEY", contains)
	}
}

func TestStartAgent_ReportsFailure(t *testing.T) {
	notFound := agent.Exit{Name: "bot", Reason: agent.NotFound, Code: 127, Detail: "bot: not in PATH"}
	for name, tt := range map[string]struct {
		starts   error
		parts    map[string]part
		kind     supervisorv1.ErrorKind
		contains string
	}{
		"not found":         {fmt.Errorf("start: %w", notFound), nil, notFoundKind, `was not found; install it or give its absolute path`},
		"no permission":     {agent.Exit{Reason: agent.StartFailed, Code: 126, Detail: "permission denied"}, nil, spawnKind, "could not be started: permission denied"},
		"no guard":          {errors.New("no guard"), nil, spawnKind, "no guard"},
		"crash":             {nil, map[string]part{"initialize": func(a *scripted, _ message) { a.crash() }}, crashedKind, "before it answered initialize, it exited with status 3; its last error output: cannot go on"},
		"shell returns 127": {nil, map[string]part{"initialize": func(a *scripted, _ message) { a.die(notFound) }}, notFoundKind, "was not found"},
		"an error":          {nil, map[string]part{"initialize": refuse(-32603, "no licence")}, agentKind, "no licence"},
		"no agent":          {nil, map[string]part{"initialize": refuse(-32601, "what is that")}, missingKind, "is it an ACP agent"},
		"not logged in":     {nil, map[string]part{"initialize": refuse(-32000, "who are you")}, authKind, "who are you"},
		"another protocol":  {nil, map[string]part{"initialize": answer(`{"protocolVersion":3}`)}, missingKind, "version 3 of ACP"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, tt.parts)
			if tt.starts != nil {
				r.cast = func(int, Spec) (map[string]part, error) { return nil, tt.starts }
			}
			_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot"}})
			wantFault(t, err, fault.OfAgent, tt.kind, `start agent "bot"`, tt.contains)
			list := r.ListAgents()
			if len(list) != 1 || list[0].GetState() != failed || list[0].GetError().GetKind() != tt.kind || list[0].GetPid() != 0 {
				t.Errorf("listed as %v", list)
			}
			if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
				t.Fatal(err)
			}
			if list := r.ListAgents(); len(list) != 0 {
				t.Errorf("still listed: %v", list)
			}
		})
	}
}

func TestExitError_NamesPathOfDemoAgent(t *testing.T) {
	exit := agent.Exit{Reason: agent.NotFound, Code: 127}
	for command, want := range map[string]string{
		"demoagent": `the command "demoagent" was not found; it is in acphost's release archive`,
		"bot":       `the command "bot" was not found; install it`,
	} {
		if got := exitError([]string{command}, exit, "").GetMessage(); !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
	}
}

func TestStartAgent_RestartsFailedAgent(t *testing.T) {
	r := newRig(t, nil)
	r.cast = func(n int, _ Spec) (map[string]part, error) {
		if n < 3 {
			return nil, errors.New("not today")
		}
		return nil, nil
	}
	req := &supervisorv1.StartAgentRequest{Command: []string{"bot"}}
	_, err := r.StartAgent(t.Context(), req)
	wantFault(t, err, fault.OfAgent, spawnKind, "not today")
	_, err = r.RestartAgent(t.Context(), "bot-1")
	wantFault(t, err, fault.OfAgent, spawnKind, "not today")
	resp, err := r.StartAgent(t.Context(), req)
	if err != nil || resp.GetReused() || resp.GetAgent().GetId() != "bot-1" || resp.GetAgent().GetError().GetKind() != spawnKind || resp.GetAgent().GetRestarts() != 2 {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestGetAgent_ByIDOrUniqueName(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	if a, err := r.GetAgent("bot"); err != nil || a.GetId() != "bot-1" {
		t.Errorf("by name: %v, %v", a, err)
	}
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Separate = true })
	_, err := r.GetAgent("bot")
	wantFault(t, err, fault.Precondition, noKind, "bot-1, bot-2")
	if a, err := r.GetAgent("bot-2"); err != nil || a.GetId() != "bot-2" {
		t.Errorf("by id: %v, %v", a, err)
	}
	_, err = r.GetAgent("nobody")
	wantFault(t, err, fault.NotFound, noKind, "bot-1, bot-2")
	_, err = r.GetAgent("")
	wantFault(t, err, fault.Invalid, noKind, "bot-1, bot-2")
	if _, err := r.StopAgent(t.Context(), "bot-1"); err != nil {
		t.Fatal(err)
	}
	if a, err := r.StopAgent(t.Context(), "bot"); err != nil || a.GetId() != "bot-2" || a.GetState() != stopped || a.GetPid() != 0 {
		t.Errorf("stopped: %v, %v", a, err)
	}
	ag, _ := r.start()
	if ag.GetId() != "bot-3" {
		t.Errorf("the next one is %s, want an id that none had", ag.GetId())
	}
}

func TestStartAgent_LimitsAgents(t *testing.T) {
	r := newRig(t, nil, func(o *Options) { o.MaxAgents = 2 })
	r.cast = func(_ int, s Spec) (map[string]part, error) {
		if s.Command[0] == "bad" {
			return nil, errors.New("bad")
		}
		return nil, nil
	}
	r.start()
	if _, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bad"}}); err == nil {
		t.Error("bad was started")
	}
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Separate = true }) // in the place of the one that failed
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"third"}})
	wantFault(t, err, fault.Exhausted, noKind, "2 agents")
}

func TestAgentState_SendsChanges(t *testing.T) {
	r := newRig(t, nil)
	sub := r.hub.Subscribe("bot-1", "")
	defer sub.Close()
	var states []string
	until := func(want string) {
		t.Helper()
		for {
			e, err := sub.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			states = append(states, words(e))
			if words(e) == want {
				return
			}
		}
	}
	_, a := r.start()
	until("RUNNING")
	a.crash()
	until("RUNNING")
	if _, err := r.RestartAgent(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	until("RUNNING")
	if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	until("STOPPED")
	wantWords(t, states, "STARTING", "RUNNING", "BACKOFF", "STARTING", "RUNNING", "STOPPING", "STARTING", "RUNNING", "STOPPING", "STOPPED")
}

func TestShutdown_StopsStartingAgent(t *testing.T) {
	begun := make(chan struct{})
	r := newRig(t, map[string]part{"initialize": func(*scripted, message) { close(begun) }})
	failed := make(chan error)
	go func() {
		_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bot"}})
		failed <- err
	}()
	<-begun
	r.Close()
	if err := <-failed; err == nil {
		t.Error("it was started")
	}
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bot"}})
	wantFault(t, err, fault.Precondition, noKind, "about to end")
}

func TestLogin_CallsAuthenticate(t *testing.T) {
	asked := make(chan message, 1)
	r := newRig(t, map[string]part{
		"authenticate": func(a *scripted, m message) {
			asked <- m
			a.say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"mode":"url","message":"Log in","url":"https://example.org/login","elicitationId":"e1"}}`)
		},
		"logout": answer(`{}`),
	})
	_, a := r.start(func(q *supervisorv1.StartAgentRequest) { q.Attended = true })
	var steps []string
	err := r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "web"}, func(s *supervisorv1.AuthenticateResponse) error {
		if q := s.GetQuestion(); q != nil {
			steps = append(steps, q.GetElicitation().GetUrl())
			a.answer(<-asked, `{}`)
		} else {
			steps = append(steps, "done "+s.GetDone().GetMethodId())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, steps, "https://example.org/login", "done web")
	if got := string(a.next("authenticate").Params); got != `{"methodId":"web"}` {
		t.Errorf("it got %s", got)
	}
	none := func(*supervisorv1.AuthenticateResponse) error { t.Error("an event was sent"); return nil }
	err = r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot"}, none)
	wantFault(t, err, fault.Invalid, noKind, "web, tty")
	err = r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "x"}, none)
	wantFault(t, err, fault.Invalid, noKind, "web, tty")
	err = r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "tty"}, none)
	wantFault(t, err, fault.Precondition, noKind, "log in as its documentation says")
	if err := r.Logout(t.Context(), "bot"); err != nil {
		t.Error(err)
	}
	r.cast = func(int, Spec) (map[string]part, error) { return map[string]part{"initialize": answer(plain)}, nil }
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Name = "plain" })
	wantFault(t, r.Logout(t.Context(), "plain"), fault.Unsupported, missingKind, "log out")
	err = r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "plain"}, none)
	wantFault(t, err, fault.Unsupported, missingKind, "log in")
}

func TestAuthenticate_WaitsForAuthComplete(t *testing.T) {
	for name, tt := range map[string]struct {
		result   string // of authenticate; "": it is not answered
		complete string // the params of auth_complete
		pages    []string
		failure  string
	}{
		"a page in the answer":   {result: `{"url":"https://example.org/login","message":"Log in"}`, complete: `{"success":true}`, pages: []string{"https://example.org/login"}},
		"a login that fails":     {result: `{"url":"https://example.org/login"}`, complete: `{"success":false,"error":"no"}`, pages: []string{"https://example.org/login"}, failure: "the login failed: no"},
		"no answer, but the end": {complete: `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			completed := `{"jsonrpc":"2.0","method":"auth_complete","params":` + tt.complete + `}`
			r := newRig(t, map[string]part{"authenticate": func(a *scripted, m message) {
				if tt.result != "" {
					a.answer(m, tt.result)
				} else {
					a.say(completed)
				}
			}})
			_, a := r.start()
			var pages []string
			done := false
			err := r.Authenticate(testkit.Context(t), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "web"}, func(s *supervisorv1.AuthenticateResponse) error {
				if q := s.GetQuestion(); q != nil {
					if done {
						t.Error("a page arrived behind the end")
					}
					if q.GetId() != "" {
						t.Errorf("the page has the id %q, so that a client would answer it", q.GetId())
					}
					pages = append(pages, q.GetElicitation().GetUrl())
					a.say(completed)
				} else {
					done = true
				}
				return nil
			})
			wantWords(t, pages, tt.pages...)
			switch {
			case tt.failure == "" && (err != nil || !done):
				t.Errorf("it ended with %v, done: %t", err, done)
			case tt.failure != "" && (done || err == nil || !strings.Contains(err.Error(), tt.failure)):
				t.Errorf("it ended with %v, done: %t; want an error with %q", err, done, tt.failure)
			}
		})
	}
}

func TestLogin_ReportsFailure(t *testing.T) {
	const attend = "start it attended"
	for _, attended := range []bool{true, false} {
		r := newRig(t, map[string]part{"authenticate": refuse(-32603, "the page was closed")})
		r.start(func(q *supervisorv1.StartAgentRequest) { q.Attended = attended })
		err := r.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "web"}, func(*supervisorv1.AuthenticateResponse) error {
			t.Error("an event was sent")
			return nil
		})
		wantFault(t, err, fault.OfAgent, agentKind, "the page was closed")
		if strings.Contains(err.Error(), attend) == attended {
			t.Errorf("attended: %t, and got %q", attended, err)
		}
	}
}
