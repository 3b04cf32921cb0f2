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

func TestPrompt_SendsEventsOfTurn(t *testing.T) {
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		a.chunk("s1", "hello")
		a.answer(m, `{"stopReason":"end_turn"}`)
		a.chunk("s1", "afterthought")
	}})
	ag, a := r.start()
	s := r.open(ag.GetId())
	all := r.hub.Subscribe(ag.GetId(), s.GetSessionId())
	defer all.Close()
	for range 20 {
		events, err := r.prompt(s.GetSessionId(), "hi")
		if err != nil {
			t.Fatal(err)
		}
		wantWords(t, events, "started", "says hello", "ended end_turn")
		for event := ""; event != "says afterthought"; { // messages after a turn are not part of the next one
			e, err := all.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			event = words(e)
		}
	}
	if got, want := string(a.next("session/prompt").Params), `{"sessionId":"s1","prompt":[{"type":"text","text":"hi"}]}`; got != want {
		t.Errorf("the agent got %s, want %s", got, want)
	}
}

// turns plays an agent whose turns end when the test ends them.
type turns struct {
	prompted chan message
}

func newTurns(r *rig) *turns {
	tr := &turns{prompted: make(chan message, 100)}
	r.cast = func(int, Spec) (map[string]part, error) {
		return map[string]part{"session/prompt": func(a *scripted, m message) { tr.prompted <- m }}, nil
	}
	return tr
}

func TestPrompt_OneTurnPerSession(t *testing.T) {
	r := newRig(t, nil)
	tr := newTurns(r)
	_, a := r.start()
	r.open("bot")
	done := make(chan []string)
	go func() { events, _ := r.prompt("s1", "one"); done <- events }()
	one := <-tr.prompted
	_, err := r.prompt("s1", "two")
	wantFault(t, err, fault.Precondition, noKind, "a turn under way")
	r.open("bot")
	go func() { events, _ := r.prompt("s2", "another session's"); done <- events }()
	a.answer(<-tr.prompted, `{"stopReason":"refusal"}`)
	wantWords(t, <-done, "started", "ended refusal")
	a.answer(one, `{"stopReason":"max_tokens"}`)
	a.answer(one, `{"stopReason":"end_turn"}`) // twice
	wantWords(t, <-done, "started", "ended max_tokens")
	go func() { events, _ := r.prompt("s1", "three"); done <- events }()
	a.answer(<-tr.prompted, `{"stopReason":"end_turn"}`)
	wantWords(t, <-done, "started", "ended end_turn")
}

func TestPrompt_CallerLeavesTurnContinues(t *testing.T) {
	for _, cancels := range []bool{false, true} {
		t.Run(fmt.Sprint(cancels), func(t *testing.T) {
			r := newRig(t, nil)
			tr := newTurns(r)
			_, a := r.start()
			r.open("bot")
			ctx, leave := context.WithCancel(t.Context())
			req := promptOf("s1", "hi")
			req.CancelOnDisconnect = cancels
			left := make(chan error)
			go func() { left <- r.Prompt(ctx, req, func(*supervisorv1.Event) error { return nil }) }()
			m := <-tr.prompted
			leave()
			if err := <-left; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v", err)
			}
			active, err := r.CancelPrompt(t.Context(), &supervisorv1.CancelPromptRequest{SessionId: "s1"})
			if err != nil || !active {
				t.Errorf("the turn is over: %v", err)
			}
			cancelled := 1
			if cancels {
				cancelled = 2
			}
			for range cancelled {
				if got := string(a.next("session/cancel").Params); got != `{"sessionId":"s1"}` {
					t.Errorf("it was asked to cancel %s", got)
				}
			}
			a.answer(m, `{"stopReason":"cancelled"}`)
			if err := r.Drain(t.Context()); err != nil {
				t.Error(err)
			}
			if active, err = r.CancelPrompt(t.Context(), &supervisorv1.CancelPromptRequest{SessionId: "s1"}); err != nil || active {
				t.Errorf("cancelling nothing: %v, %v", active, err)
			}
		})
	}
}

func TestPrompt_SendErrorEndsCall(t *testing.T) {
	r := newRig(t, map[string]part{"session/cancel": ignore})
	tr := newTurns(r)
	_, a := r.start()
	r.open("bot")
	broken := errors.New("the stream is broken")
	req := promptOf("s1", "hi")
	req.CancelOnDisconnect = true
	if err := r.Prompt(t.Context(), req, func(*supervisorv1.Event) error { return broken }); !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	a.next("session/cancel")
	a.answer(<-tr.prompted, `{"stopReason":"cancelled"}`)
	if err := r.Drain(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestTurn_ErrorDescribesAgentEnd(t *testing.T) {
	for name, tt := range map[string]struct {
		p    part
		want string
	}{
		"an error":   {refuse(-32603, "out of tokens"), "failed AGENT_ERROR"},
		"log in":     {refuse(-32000, "log in"), "failed AUTH_REQUIRED"},
		"a crash":    {func(a *scripted, _ message) { a.crash() }, "failed CRASHED"},
		"not a word": {answer(`"?"`), "ended "},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, map[string]part{"session/prompt": tt.p})
			r.start()
			r.open("bot")
			events, err := r.prompt("s1", "hi")
			if err != nil {
				t.Fatal(err)
			}
			wantWords(t, events, "started", tt.want)
		})
	}
}

func TestStopAgent_EndsTurns(t *testing.T) {
	r := newRig(t, nil)
	tr := newTurns(r)
	r.start()
	r.open("bot")
	done := make(chan []string)
	go func() { events, _ := r.prompt("s1", "hi"); done <- events }()
	<-tr.prompted
	if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	events := <-done
	if events[len(events)-1] != "failed STOPPED" {
		t.Errorf("got %q", events)
	}
}

func TestTurn_EndsWithoutEvent(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.open("bot")
	var events []string
	deafPrompt(r, promptOf("s1", "hi"), func(e *supervisorv1.Event) { events = append(events, words(e)) })
	wantWords(t, events, "ended end_turn")
	r.cast = func(int, Spec) (map[string]part, error) {
		return map[string]part{"session/prompt": func(a *scripted, _ message) { a.crash() }}, nil
	}
	r.start(func(q *supervisorv1.StartAgentRequest) { q.Name = "other" })
	s := r.open("other")
	req := promptOf(s.GetSessionId(), "hi")
	req.AgentId = "other"
	var last *supervisorv1.AgentError
	deafPrompt(r, req, func(e *supervisorv1.Event) { last = e.GetTurnEnded().GetError() })
	if last.GetKind() != crashedKind || last.GetExitCode() != 3 || !strings.Contains(last.GetMessage(), "exited with status 3") {
		t.Errorf("got %v", last)
	}
}

// deafPrompt is Prompt with a subscription to another session, which never receives the turn's events.
func deafPrompt(r *rig, req *supervisorv1.PromptRequest, send func(*supervisorv1.Event)) {
	r.t.Helper()
	s, err := r.session(req.GetAgentId(), req.GetSessionId())
	if err != nil {
		r.t.Fatal(err)
	}
	run, err := s.agent.runs()
	if err != nil {
		r.t.Fatal(err)
	}
	params, err := promptParams(run.info, &supervisorv1.PromptRequest{SessionId: s.id, Prompt: req.GetPrompt()})
	if err != nil {
		r.t.Fatal(err)
	}
	sub := r.hub.Subscribe(s.agent.identity.ID, "another")
	defer sub.Close()
	turn, err := r.beginTurn(r.t.Context(), s, run, params)
	if err != nil {
		r.t.Fatal(err)
	}
	if err := turn.sendEvents(r.t.Context(), sub, nil, func(e *supervisorv1.Event) error { send(e); return nil }); err != nil {
		r.t.Fatal(err)
	}
}

func TestPrompt_WarnsOfLargeResources(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.open("bot")
	req := promptOf("s1", "look")
	req.Prompt = append(req.Prompt, &supervisorv1.ContentBlock{Content: &supervisorv1.ContentBlock_Resource{Resource: &supervisorv1.EmbeddedResource{
		Uri: "file:///big", Contents: &supervisorv1.EmbeddedResource_Text{Text: strings.Repeat("x", 2<<20)},
	}}})
	var events []string
	if err := r.Prompt(t.Context(), req, func(e *supervisorv1.Event) error {
		if e.GetNotice() != nil && (e.GetCursor() != "" || e.GetAgentId() != "bot-1" || e.GetSessionId() != "s1" || e.GetTime() == nil) {
			t.Errorf("the notice is %v", e)
		}
		events = append(events, words(e))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	wantWords(t, events, "notice A large resource is part of the prompt", "started", "ended end_turn")
}

func TestCancel_IgnoredIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		tr := newTurns(r)
		_, a := r.start()
		r.open("bot")
		done := make(chan []string)
		go func() { events, _ := r.prompt("s1", "hi"); done <- events }()
		m := <-tr.prompted
		for range 3 {
			if active, err := r.CancelPrompt(t.Context(), &supervisorv1.CancelPromptRequest{SessionId: "s1"}); !active || err != nil {
				t.Error(active, err)
			}
		}
		began := time.Now()
		time.Sleep(cancelTimeout - time.Millisecond)
		synctest.Wait()
		a.chunk("s1", "still here")
		time.Sleep(time.Second)
		synctest.Wait()
		a.answer(m, `{"stopReason":"end_turn"}`)
		wantWords(t, <-done, "started", "says still here", "notice The agent goes on though its turn was cancelled", "ended end_turn")
		if took := time.Since(began); took > time.Minute {
			t.Errorf("it took %v", took)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestPrompt_BackpressureLosesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const chunks = 20_000
		written := make(chan struct{})
		r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
			for i := range chunks {
				a.chunk("s1", fmt.Sprint(i))
			}
			close(written)
			a.answer(m, `{"stopReason":"end_turn"}`)
		}})
		r.start()
		r.open("bot")
		n := 0
		if err := r.Prompt(t.Context(), promptOf("s1", "hi"), func(e *supervisorv1.Event) error {
			if e.GetAgentMessage() == nil {
				return nil
			}
			if n == 0 { // the first one takes as long as anything else goes on
				synctest.Wait()
				select {
				case <-written:
					t.Error("the agent was not held back")
				default:
				}
			}
			if got := e.GetAgentMessage().GetContent().GetText().GetText(); got != fmt.Sprint(n) {
				t.Fatalf("got chunk %s, want %d", got, n)
			}
			n++
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		if n != chunks {
			t.Errorf("%d chunks of %d were sent", n, chunks)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestDrain_FinishesTurnsAndStartsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		tr := newTurns(r)
		_, a := r.start()
		r.open("bot")
		done := make(chan []string)
		go func() { events, _ := r.prompt("s1", "hi"); done <- events }()
		m := <-tr.prompted
		drained := make(chan error)
		go func() { drained <- r.Drain(t.Context()) }()
		synctest.Wait()
		_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w"})
		wantFault(t, err, fault.Precondition, noKind, "about to end")
		_, err = r.StartAgent(t.Context(), &supervisorv1.StartAgentRequest{Command: []string{"x"}})
		wantFault(t, err, fault.Precondition, noKind, "about to end")
		_, err = r.RestartAgent(t.Context(), "bot")
		wantFault(t, err, fault.Precondition, noKind, "about to end")
		a.answer(m, `{"stopReason":"end_turn"}`)
		wantWords(t, <-done, "started", "ended end_turn")
		if err := <-drained; err != nil {
			t.Error(err)
		}
		_, err = r.prompt("s1", "more")
		wantFault(t, err, fault.Precondition, noKind, "about to end")
		r.Close()
		r.hub.Close()
	})
}

func TestDrain_CancelsLongTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		tr := newTurns(r)
		_, a := r.start()
		r.open("bot")
		r.open("bot")
		done := make(chan []string, 2)
		for _, id := range []string{"s1", "s2"} {
			go func() { events, _ := r.prompt(id, "hi"); done <- events }()
		}
		one, two := <-tr.prompted, <-tr.prompted
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		go func() {
			a.next("session/cancel")
			a.next("session/cancel")
			a.answer(one, `{"stopReason":"cancelled"}`)
		}()
		err := r.Drain(ctx)
		if left, ok := errors.AsType[*TurnsError](err); !ok || left.Left != 1 {
			t.Errorf("got %v, though a turn is under way", err)
		}
		wantWords(t, <-done, "started", "ended cancelled")
		r.Close()
		if events := <-done; events[len(events)-1] != "failed STOPPED" {
			t.Errorf("got %q", events)
		}
		_ = two
		r.hub.Close()
	})
}

func TestUpdates_UnknownSessionsAreIgnored(t *testing.T) {
	r := newRig(t, map[string]part{"session/prompt": func(a *scripted, m message) {
		for i := range 100 {
			a.chunk(fmt.Sprintf("ghost%d", i), "boo")
		}
		a.say(`{"jsonrpc":"2.0","id":99,"method":"_ghost/ask","params":{"sessionId":"ghost"}}`)
		a.say(`{"jsonrpc":"2.0","id":` + strings.Repeat("9", 5000) + `,"result":{}}`)
		a.say("garbage")
		a.answer(m, `{"stopReason":"end_turn"}`)
	}})
	ag, _ := r.start()
	r.open("bot")
	r.open("bot") // beside several sessions, an id that no message explains belongs to none
	events, err := r.prompt("s1", "hi")
	if err != nil {
		t.Fatal(err)
	}
	wantWords(t, events, "started", "ended end_turn")
	if ag, err = r.GetAgent(ag.GetId()); err != nil || len(ag.GetSessionIds()) != 2 {
		t.Errorf("open are %q, %v", ag.GetSessionIds(), err)
	}
}
