package programs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestPrompt_StuckCallerIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		written := make(chan struct{})
		r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
			for i := range 20_000 {
				a.chunk("s1", fmt.Sprint(i))
			}
			close(written)
			a.answer(m, `{"stopReason":"end_turn"}`)
		}})
		r.start()
		r.open("bot")
		began := time.Now()
		err := r.Prompt(t.Context(), promptOf("s1", "hi"), func(*supervisorv1.Event) error {
			<-written
			return nil
		})
		wantFault(t, err, fault.Exhausted, noKind, "the turn goes on")
		if took := time.Since(began); took < 30*time.Second || took > 40*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
		if err := r.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestStuckAgent_CallsTimeOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var a *scripted
		r := newRig(t, map[string]part{"session/prompt": func(*scripted, message) { <-a.died }})
		_, a = r.start()
		r.open("bot")
		ended := make(chan []string)
		go func() { events, _ := r.prompt("s1", "the last one that it reads"); ended <- events }()
		a.next("session/prompt")
		for range 3 {
			_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/" + strings.Repeat("w", 1<<19)})
			wantFault(t, err, fault.OfAgent, noKind, "did not answer within 1m0s")
		}
		if active, err := r.CancelPrompt(t.Context(), &supervisorv1.CancelPromptRequest{SessionId: "s1"}); err != nil || !active {
			t.Error(active, err)
		}
		go func() {
			time.Sleep(time.Second)
			a.crash() // as a kill would
		}()
		if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
			t.Error(err)
		}
		if events := <-ended; !strings.HasPrefix(events[len(events)-1], "failed ") {
			t.Errorf("got %q", events)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestCrash_ClosedOutputIsCrash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, map[string]part{"session/prompt": func(a *scripted, _ message) { _ = a.stdout.Close() }})
		r.start()
		r.open("bot")
		events, err := r.prompt("s1", "hi")
		if err != nil {
			t.Fatal(err)
		}
		wantWords(t, events, "started", "failed CRASHED")
		if ag := r.until("bot", waiting, 0); ag.GetError().GetKind() != crashedKind || !strings.Contains(ag.GetError().GetMessage(), "the link to it ended") {
			t.Errorf("it is shown as %v", ag)
		}
		r.until("bot", running, 1)
		r.Close()
		r.hub.Close()
	})
}

func TestInitialize_LimitsAnswer(t *testing.T) {
	r := newRig(t, map[string]part{"initialize": answer(`{"protocolVersion":1,"_meta":"` + strings.Repeat("x", maxInfo) + `"}`)})
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bot"}})
	wantFault(t, err, fault.OfAgent, agentKind, "more than the 1048576")
}

func TestStartAgent_HandlerNotReady(t *testing.T) {
	r := newRig(t, nil)
	r.unready = errors.New("handler fs: it was not found")
	_, err := r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"bot"}})
	wantFault(t, err, fault.OfAgent, noKind, "a handler is not ready: handler fs")
}

func TestNewSession_RejectsIDBeingLoaded(t *testing.T) {
	loading, load := make(chan message, 1), make(chan struct{})
	r := newRig(t, map[string]part{
		"session/load": func(_ *scripted, m message) { loading <- m; close(load) },
		"session/new":  answer(`{"sessionId":"x"}`),
	})
	_, a := r.start()
	done := make(chan error)
	go func() {
		done <- second(r.LoadSession(t.Context(), &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"}))
	}()
	<-load
	_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/other"})
	wantFault(t, err, fault.OfAgent, agentKind, "two sessions got the id")
	a.answer(<-loading, `{}`)
	wantFault(t, <-done, fault.OfAgent, agentKind, "two sessions got the id")
	if ag, err := r.GetAgent("bot"); err != nil || len(ag.GetSessionIds()) != 0 || strings.Join(a.forgot, " ") != "x x" {
		t.Errorf("open are %q, %v; the link forgot %q", ag.GetSessionIds(), err, a.forgot)
	}
}

func TestRequestFlood_IsAnsweredOrEndsAgent(t *testing.T) {
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		for i := range 2000 {
			a.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"_flood/%d","params":{}}`, i, i))
		}
		a.answer(m, `{"stopReason":"end_turn"}`)
	}})
	_, a := r.start()
	r.open("bot")
	if events, err := r.prompt("s1", "hi"); err != nil || events[len(events)-1] != "ended end_turn" {
		t.Errorf("got %q, %v", events, err)
	}
	for range 2000 {
		if m := a.next(""); m.Error.Code != -32601 {
			t.Fatalf("it got %+v", m)
		}
	}
}

func TestCalls_EndWithContext(t *testing.T) {
	r := newRig(t, map[string]part{"session/list": ignore, "session/close": ignore, "session/load": ignore, "authenticate": ignore, "logout": ignore, "session/delete": ignore})
	_, a := r.start()
	r.open("bot")
	for method, call := range map[string]func(context.Context) error{
		"session/list": func(ctx context.Context) error {
			return second(r.ListStoredSessions(ctx, &supervisorv1.ListStoredSessionsRequest{AgentId: "bot"}))
		},
		"session/close": func(ctx context.Context) error {
			return second(r.CloseSession(ctx, &supervisorv1.CloseSessionRequest{SessionId: "s1"}))
		},
		"session/delete": func(ctx context.Context) error {
			return r.DeleteSession(ctx, &supervisorv1.DeleteSessionRequest{AgentId: "bot", SessionId: "old"})
		},
		"session/load": func(ctx context.Context) error {
			return second(r.LoadSession(ctx, &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "x", Cwd: "/w"}))
		},
		"authenticate": func(ctx context.Context) error {
			return r.Authenticate(ctx, &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "web"}, nil)
		},
		"logout": func(ctx context.Context) error { return r.Logout(ctx, "bot") },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- call(ctx) }()
		m := a.next(method)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v", method, err)
		}
		if got, want := string(a.next("$/cancel_request").Params), `{"requestId":`+string(m.ID)+`}`; got != want {
			t.Errorf("%s: it was asked to cancel %s, want %s", method, got, want)
		}
	}
	if events, err := r.prompt("s1", "still open"); err != nil || len(events) != 2 {
		t.Errorf("got %q, %v", events, err)
	}
}
