package programs

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/proxy/agent"
)

func TestRestart_UntilTooManyCrashes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options) { o.MaxRestarts = 3 })
		_, a := r.start()
		r.open("bot")
		for i := range 3 {
			a.crash()
			ag := r.until("bot", waiting, uint32(i))
			if ag.GetError().GetKind() != crashedKind || ag.GetError().GetExitCode() != 3 || ag.GetPid() != 0 || !slices.Equal(ag.GetError().GetStderrTail(), []string{"cannot go on"}) {
				t.Errorf("while it waits: %v", ag)
			}
			_, err := r.prompt("s1", "hi")
			wantFault(t, err, fault.Precondition, crashedKind, "backoff", "exited with status 3")
			began := time.Now()
			ag = r.until("bot", running, uint32(i+1))
			if took, least := time.Since(began), 200*time.Millisecond<<i; took < least || took > least*3/2 {
				t.Errorf("restart %d arrived after %v, want about %v", i+1, took, least)
			}
			if ag.GetRestarts() != uint32(i+1) || ag.GetError().GetKind() != crashedKind || ag.GetPid() == 0 {
				t.Errorf("it runs again, and still has the reason of its last end: %v", ag)
			}
			a = r.latest()
		}
		a.crash()
		ag := r.until("bot", failed, 3)
		if msg := ag.GetError().GetMessage(); ag.GetError().GetKind() != crashedKind || !strings.Contains(msg, "4 times within 10m0s") {
			t.Errorf("it failed: %v", ag)
		}
		if len(ag.GetSessionIds()) != 0 {
			t.Errorf("open are %q", ag.GetSessionIds())
		}
		_, err := r.prompt("s1", "hi")
		wantFault(t, err, fault.NotFound, unknownKind)
		_, err = r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
		wantFault(t, err, fault.OfAgent, crashedKind, "4 times")
		if ag, err := r.RestartAgent(t.Context(), "bot"); err != nil || ag.GetState() != running {
			t.Errorf("restarted: %v, %v", ag, err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestRestart_DistantCrashesDoNotAddUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options) { o.MaxRestarts = 1 })
		_, a := r.start()
		for i := range uint32(5) {
			a.crash()
			r.until("bot", waiting, i)
			began := time.Now()
			r.until("bot", running, i+1)
			if took := time.Since(began); took > 300*time.Millisecond {
				t.Errorf("it was started after %v, as if the end before still counted", took)
			}
			a = r.latest()
			time.Sleep(endWindow + time.Second)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestRestart_FailureIsRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cast = func(n int, _ Spec) (map[string]part, error) {
			if n == 2 {
				return nil, agent.Exit{Reason: agent.NotFound, Code: 127}
			}
			return nil, nil
		}
		_, a := r.start()
		r.open("bot")
		a.crash()
		ag := r.until("bot", running, 2)
		if len(ag.GetSessionIds()) != 1 {
			t.Errorf("it runs again: %v", ag)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestInitialize_TimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"initialize": ignore}, func(o *Options) { o.InitializeTimeout = 7 * time.Second })
		began := time.Now()
		_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bot", "--slow"}})
		wantFault(t, err, fault.OfAgent, timeoutKind, "did not answer initialize within 7s", "bot --slow")
		if took := time.Since(began); took > 10*time.Second {
			t.Errorf("it took %v", took)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestNewSession_WaitsForStart(t *testing.T) {
	for name, tt := range map[string]struct {
		timeout    time.Duration
		cancel, ok bool
		want       string
	}{
		"the agent answers":     {timeout: time.Minute, ok: true},
		"the agent is silent":   {timeout: 7 * time.Second, want: "did not answer initialize within 7s"},
		"the call is cancelled": {timeout: time.Minute, cancel: true, want: "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				slow := func(a *scripted, m message) {
					if tt.ok {
						time.Sleep(5 * time.Second)
						a.answer(m, everything)
					}
				}
				r := newRig(t, map[string]part{"initialize": slow}, func(o *Options) { o.InitializeTimeout = tt.timeout })
				go func() {
					_, _ = r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Name: "bot", Command: []string{"bot"}})
				}()
				synctest.Wait()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tt.cancel {
					time.AfterFunc(time.Second, cancel)
				}
				_, err := r.NewSession(ctx, &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
				if (err == nil) != tt.ok || err != nil && !strings.Contains(err.Error(), tt.want) {
					t.Errorf("error = %v, want %q", err, tt.want)
				}
				r.Close()
				r.hub.Close()
			})
		})
	}
}

func TestRestart_ResumesOrLoadsSessions(t *testing.T) {
	const withLoad = `{"protocolVersion":1,"agentCapabilities":{"loadSession":true,"sessionCapabilities":{"additionalDirectories":{}}}}`
	for name, tt := range map[string]struct {
		initialize string
		method     string // empty: it cannot
	}{
		"session/resume":      {everything, "session/resume"},
		"session/load":        {withLoad, "session/load"},
		"not at all":          {plain, ""},
		"without directories": {`{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, nil)
			r.cast = func(n int, _ Spec) (map[string]part, error) {
				if n == 1 {
					return nil, nil
				}
				return map[string]part{"initialize": answer(tt.initialize)}, nil
			}
			_, a := r.start()
			if _, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", AdditionalDirectories: []string{"/x"}, McpServers: []*supervisorv1.McpServer{
				{Name: "m", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/m"}}},
			}}); err != nil {
				t.Fatal(err)
			}
			sub := r.hub.Subscribe("bot-1", "s1")
			defer sub.Close()
			a.crash()
			ag := r.until("bot", running, 1)
			a = r.latest()
			if tt.method == "" {
				var received []string
				for range 2 {
					e, err := sub.Next(t.Context())
					if err != nil {
						t.Fatal(err)
					}
					received = append(received, words(e))
				}
				if want := []string{"notice The session could not be resumed", "closed it could not be resumed"}; !slices.Equal(received, want) || len(ag.GetSessionIds()) != 0 {
					t.Errorf("got %q, want %q; open are %q", received, want, ag.GetSessionIds())
				}
				_, err := r.prompt("s1", "hi")
				wantFault(t, err, fault.NotFound, unknownKind, "is open here any more", "bot-1", "cannot go on")
				return
			}
			want := `{"sessionId":"s1","cwd":"/w","additionalDirectories":["/x"],"mcpServers":[{"name":"m","command":"/m","args":[],"env":[]}]}`
			if got := string(a.next(tt.method).Params); got != want {
				t.Errorf("it got %s, want %s", got, want)
			}
			if received, err := r.prompt("s1", "hi"); err != nil || received[len(received)-1] != "ended end_turn" {
				t.Errorf("got %q, %v", received, err)
			}
		})
	}
}

func TestRestart_ClosesUnknownSession(t *testing.T) {
	r := newRig(t, map[string]part{"session/resume": func(a *scripted, m message) {
		if strings.Contains(string(m.Params), `"s2"`) {
			refuse(-32002, "never stored")(a, m)
			return
		}
		a.answer(m, `{}`)
	}})
	_, a := r.start()
	for range 20 {
		r.open("bot")
	}
	a.crash()
	ag := r.until("bot", running, 1)
	if ids := ag.GetSessionIds(); len(ids) != 19 || slices.Contains(ids, "s2") {
		t.Errorf("open are %q", ids)
	}
}

func TestCrash_EndsTurnAndKeepsSession(t *testing.T) {
	r := newRig(t, nil)
	r.cast = func(n int, _ Spec) (map[string]part, error) {
		if n == 1 {
			return map[string]part{"session/prompt": func(a *scripted, _ message) {
				a.chunk("s1", "I think that")
				a.crash()
			}}, nil
		}
		return nil, nil
	}
	r.start()
	r.open("bot")
	var last *supervisorv1.AgentError
	if err := r.Prompt(t.Context(), promptOf("s1", "hi"), func(e *supervisorv1.Event) error { last = e.GetTurnEnded().GetError(); return nil }); err != nil {
		t.Fatal(err)
	}
	if last.GetKind() != crashedKind || last.GetExitCode() != 3 || !slices.Equal(last.GetStderrTail(), []string{"cannot go on"}) {
		t.Errorf("the turn ended with %v", last)
	}
	r.until("bot", running, 1)
	events, err := r.prompt("s1", "again")
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, events, "started", "ended end_turn")
}

func TestCrash_FailsCalls(t *testing.T) {
	r := newRig(t, map[string]part{"session/list": func(a *scripted, _ message) { a.crash() }})
	r.start()
	_, err := r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"})
	wantFault(t, err, fault.OfAgent, crashedKind, "session/list", "exited with status 3")
}

func TestCrash_ClaimOfAgentIsIgnored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"session/list": func(a *scripted, m message) {
			a.say(`{"jsonrpc":"2.0","id":` + string(m.ID) + `,"error":{"code":-32603,"message":"gone","data":{"acphost":{"kind":"crashed"}}}}`)
		}})
		r.start()
		_, err := r.ListStoredSessions(t.Context(), &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"})
		wantFault(t, err, fault.OfAgent, agentKind, "gone")
		r.Close()
		r.hub.Close()
	})
}

func TestRestartAgent_ResumesAtOnceAndIsNotCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options) { o.MaxRestarts = 0 })
		r.start()
		r.open("bot")
		began := time.Now()
		for i := range 3 {
			ag, err := r.RestartAgent(t.Context(), "bot")
			if err != nil || ag.GetState() != running || ag.GetRestarts() != uint32(i+1) || len(ag.GetSessionIds()) != 1 {
				t.Fatalf("got %v, %v", ag, err)
			}
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %v", took)
		}
		if events, err := r.prompt("s1", "hi"); err != nil || len(events) != 2 {
			t.Errorf("got %q, %v", events, err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestRestartAgent_SkipsBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.cast = func(n int, _ Spec) (map[string]part, error) {
			if n > 1 && n < 6 {
				return nil, errors.New("not yet")
			}
			return nil, nil
		}
		_, a := r.start()
		a.crash()
		r.until("bot", waiting, 4)
		began := time.Now()
		if ag, err := r.RestartAgent(t.Context(), "bot"); err != nil || ag.GetState() != running || !time.Now().Equal(began) {
			t.Errorf("after %v: %v, %v", time.Since(began), ag, err)
		}
		r.latest().crash()
		r.until("bot", waiting, 5)
		began = time.Now()
		if ag, err := r.StopAgent(t.Context(), "bot"); err != nil || ag.GetState() != stopped || ag.GetError().GetKind() != stoppedKind || !time.Now().Equal(began) {
			t.Errorf("after %v: %v, %v", time.Since(began), ag, err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestStartAgent_WaitsForRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		_, a := r.start()
		a.crash()
		r.until("bot", waiting, 0)
		resp, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot", "--acp"}})
		if err != nil || !resp.GetReused() || resp.GetAgent().GetState() != running || resp.GetAgent().GetId() != "bot-1" {
			t.Errorf("got %v, %v", resp, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		r.latest().crash()
		r.until("bot", waiting, 1)
		if _, err := r.StartAgent(ctx, &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot", "--acp"}}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want the context's error", err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestResume_StuckSessionTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"session/resume": ignore})
		_, a := r.start()
		r.open("bot")
		a.crash()
		r.until("bot", waiting, 0)
		began := time.Now()
		ag := r.until("bot", running, 1)
		if took := time.Since(began); took > 2*callTimeout || len(ag.GetSessionIds()) != 0 {
			t.Errorf("it took %v; open are %q", took, ag.GetSessionIds())
		}
		r.Close()
		r.hub.Close()
	})
}

func TestResume_CloseDuringResumeReachesAgent(t *testing.T) {
	resuming, resume := make(chan struct{}), make(chan struct{})
	r := newRig(t, map[string]part{"session/resume": func(a *scripted, m message) {
		close(resuming)
		<-resume
		a.answer(m, `{}`)
	}})
	_, a := r.start()
	r.open("bot")
	a.crash()
	<-resuming
	if res, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil || res {
		t.Errorf("got %v, %v, want that the agent was not asked yet", res, err)
	}
	close(resume)
	if got := string(r.latest().next("session/close").Params); got != `{"sessionId":"s1"}` {
		t.Errorf("it was asked to close %s", got)
	}
	if ag := r.until("bot", running, 1); len(ag.GetSessionIds()) != 0 {
		t.Errorf("open are %q", ag.GetSessionIds())
	}
}

func TestStartAgent_DuringRestartReturnsAgent(t *testing.T) {
	stopping, release := make(chan struct{}), make(chan struct{})
	r := newRig(t, nil)
	r.cast = func(n int, _ Spec) (map[string]part, error) {
		if n == 2 {
			close(stopping)
			<-release
		}
		return nil, nil
	}
	r.start()
	restarted := make(chan error)
	go func() { restarted <- second(r.RestartAgent(t.Context(), "bot")) }()
	<-stopping
	got := make(chan *supervisorv1.StartAgentResponse)
	go func() {
		resp, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot", "--acp"}})
		if err != nil {
			t.Error(err)
		}
		got <- resp
	}()
	close(release)
	if err := <-restarted; err != nil {
		t.Error(err)
	}
	if resp := <-got; !resp.GetReused() || resp.GetAgent().GetState() != running || resp.GetAgent().GetRestarts() != 1 {
		t.Errorf("got %v", resp)
	}
}

func TestStartAgent_FailedAgentIsRestartedOnce(t *testing.T) {
	r := newRig(t, nil)
	r.cast = func(n int, _ Spec) (map[string]part, error) {
		if n == 1 {
			return nil, errors.New("not at first")
		}
		return nil, nil
	}
	req := &supervisorv1.StartAgentRequest{Command: []string{"bot"}}
	if _, err := r.StartAgent(t.Context(), req); err == nil {
		t.Fatal("it was started")
	}
	failures := make(chan error)
	for range 20 {
		go func() { failures <- second(r.StartAgent(t.Context(), req)) }()
	}
	for range 20 {
		if err := <-failures; err != nil {
			t.Error(err)
		}
	}
	if ag, err := r.GetAgent("bot"); err != nil || ag.GetRestarts() != 1 {
		t.Errorf("got %v, %v", ag, err)
	}
}

func TestAgentError_NamesRefusalsAtStart(t *testing.T) {
	const refused = "; the sandbox refused: write /home/.state"
	confined := func(then func(*scripted, message)) part {
		return func(a *scripted, m message) {
			a.mu.Lock()
			a.atStart = refused
			a.mu.Unlock()
			then(a, m)
		}
	}
	crash := confined(func(a *scripted, _ message) { a.crash() })
	t.Run("initialize", func(t *testing.T) {
		r := newRig(t, map[string]part{"initialize": crash})
		_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot"}})
		if err == nil || !strings.Contains(err.Error(), refused) {
			t.Errorf("got %v, want %q in it", err, refused)
		}
	})
	for name, does := range map[string]part{
		"first session, ended":  crash,
		"first session, failed": confined(refuse(-32603, "cannot write")),
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]part{"session/new": does})
			a, _ := r.start()
			_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: "/w"})
			if err == nil || !strings.Contains(err.Error(), refused) {
				t.Errorf("got %v, want %q in it", err, refused)
			}
		})
	}
}

func TestAgentEnd_QuotesFirstDroppedLine(t *testing.T) {
	for name, c := range map[string]struct{ line, want string }{
		"pretty-printed": {"{\n  \"jsonrpc\": \"2.0\",\n", `the first line that was dropped is "{": the agent writes its JSON over several lines, and each message must be one line`},
		"words":          {"listening on port 80\n", `"listening on port 80": each message must be one line of JSON`},
	} {
		handler := func(a *scripted, _ message) {
			a.saying.Lock()
			_, _ = io.WriteString(a.stdout, c.line)
			a.saying.Unlock()
			a.crash()
		}
		t.Run(name+"/initialize", func(t *testing.T) {
			_, err := newRig(t, map[string]part{"initialize": handler}).StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"/opt/bot"}})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
		t.Run(name+"/later", func(t *testing.T) {
			r := newRig(t, map[string]part{"session/new": handler})
			a, _ := r.start()
			_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: a.GetId(), Cwd: "/w"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q in it", err, c.want)
			}
		})
	}
}
