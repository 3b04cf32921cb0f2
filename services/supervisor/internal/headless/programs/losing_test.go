package programs

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/supervisor/internal/events/activity"
)

// tellsOf returns the next events of a session.
func tellsOf(t *testing.T, sub *activity.Subscription, n int) (events []*supervisorv1.Event, texts []string) {
	t.Helper()
	for range n {
		e, err := sub.Next(t.Context())
		if err != nil {
			t.Fatalf("after %q: %v", texts, err)
		}
		events, texts = append(events, e), append(texts, words(e))
	}
	return events, texts
}

func TestLostSession_NoticeHasReason(t *testing.T) {
	const loads = `{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}`
	for method, initialize := range map[string]string{"session/resume": everything, "session/load": loads} {
		t.Run(method, func(t *testing.T) {
			r := newRig(t, map[string]part{"initialize": answer(initialize), method: refuse(-32002, "it was never stored")})
			_, a := r.start()
			r.open("bot")
			sub := r.hub.Subscribe("bot-1", "s1")
			defer sub.Close()
			a.crash()
			r.until("bot", running, 1)
			events, texts := tellsOf(t, sub, 2)
			if want := []string{"notice The session could not be resumed", "closed " + method + " failed"}; !slices.Equal(texts, want) {
				t.Fatalf("got %q, want %q", texts, want)
			}
			n := events[0].GetNotice()
			if n.GetSeverity() != "error" || !n.GetFromAcphost() {
				t.Errorf("the notice is %v", n)
			}
			for _, part := range []string{"bot-1", `"s1"`, method, "the agent does not know the session", "it was never stored"} {
				if !strings.Contains(n.GetDescription(), part) {
					t.Errorf("the notice is %q, and not %q", n.GetDescription(), part)
				}
			}
			if strings.Count(n.GetDescription(), method) > 1 {
				t.Errorf("the notice repeats the attempt: %q", n.GetDescription())
			}
			_, err := r.prompt("s1", "hi")
			wantFault(t, err, fault.NotFound, unknownKind, "is open here any more", method, "it was never stored")
		})
	}
}

func TestLostSession_ReopenClearsIt(t *testing.T) {
	r := newRig(t, nil)
	r.cast = func(n int, _ Spec) (map[string]part, error) {
		refused := 0
		return map[string]part{"session/resume": func(a *scripted, m message) {
			if refused++; n == 2 && refused == 1 {
				refuse(-32603, "not yet")(a, m)
				return
			}
			a.answer(m, `{}`)
		}}, nil
	}
	_, a := r.start()
	r.open("bot")
	a.crash()
	r.until("bot", running, 1)
	_, err := r.prompt("s1", "hi")
	wantFault(t, err, fault.NotFound, unknownKind, "not yet")
	if _, err := r.ResumeSession(t.Context(), &supervisorv1.ResumeSessionRequest{AgentId: "bot", SessionId: "s1", Cwd: "/w"}); err != nil {
		t.Fatal(err)
	}
	if events, err := r.prompt("s1", "hi"); err != nil || events[len(events)-1] != "ended end_turn" {
		t.Errorf("got %q, %v", events, err)
	}
	if _, err := r.CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"}); err != nil {
		t.Fatal(err)
	}
	if _, err = r.prompt("s1", "hi"); err == nil || strings.Contains(err.Error(), "not yet") {
		t.Errorf("after it was closed: %v", err)
	}
}

func TestLostSession_FailedAgentHasReason(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil, func(o *Options) { o.MaxRestarts = 0 })
		_, a := r.start()
		r.open("bot")
		sub := r.hub.Subscribe("bot-1", "s1")
		defer sub.Close()
		a.crash()
		r.until("bot", failed, 0)
		events, texts := tellsOf(t, sub, 2)
		if want := []string{"notice The agent has failed, and the session with it", "closed the agent is gone"}; !slices.Equal(texts, want) {
			t.Errorf("got %q, want %q", texts, want)
		}
		if d := events[0].GetNotice().GetDescription(); !strings.Contains(d, "exited with status 3") {
			t.Errorf("the notice is %q", d)
		}
		r.Close()
		r.hub.Close()
	})
}

func TestStopAgent_ClosesSessionsWithoutNotice(t *testing.T) {
	r := newRig(t, nil)
	r.start()
	r.open("bot")
	sub := r.hub.Subscribe("bot-1", "s1")
	defer sub.Close()
	if _, err := r.StopAgent(t.Context(), "bot"); err != nil {
		t.Fatal(err)
	}
	if _, texts := tellsOf(t, sub, 1); texts[0] != "closed the agent is gone" {
		t.Errorf("got %q", texts)
	}
}
