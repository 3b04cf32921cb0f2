package programs

import (
	"testing"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// version2 is an agent that speaks ACP v2 alone.
func version2() map[string]part {
	return map[string]part{
		"initialize": func(a *scripted, m message) {
			if a.refused == 0 {
				a.refused++
				refuse(-32022, "Unsupported protocol version")(a, m)
				return
			}
			a.answer(m, `{"protocolVersion":2,"info":{"name":"two","version":"1"},"capabilities":{"session":{"mcp":{"stdio":{}}}},`+
				`"authMethods":[{"type":"agent","methodId":"web","name":"Web"}]}`)
		},
		"session/new": answer(`{"sessionId":"s1","configOptions":[{"type":"select","configId":"m","name":"M","category":"mode","currentValue":"a",` +
			`"options":[{"groupId":"g","name":"G","options":[{"value":"a","name":"A"},{"value":"b","name":"B"}]}]}],"availableCommands":[{"type":"command","name":"x","description":"y"}]}`),
		"session/prompt": func(a *scripted, m message) {
			a.update("s1", `{"sessionUpdate":"state_update","state":"running"}`)
			a.answer(m, `{"messageId":"u"}`)
			a.update("s1", `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hello"}}`)
			a.update("s1", `{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
		},
		"session/set_config_option": answer(`{"configOptions":[{"type":"select","configId":"m","name":"M","category":"mode","currentValue":"b","options":[{"value":"b","name":"B"}]}]}`),
		"auth/login":                answer(`{}`),
		"auth/logout":               answer(`{}`),
	}
}

// TestVersion2_CallsMatchVersion1 makes the same calls as for version 1: callers do not depend on the version of an
// agent.
func TestVersion2_CallsMatchVersion1(t *testing.T) {
	r := newRig(t, version2())
	_, a := r.start()
	got := func(method, want string) {
		t.Helper()
		if got := string(a.next(method).Params); got != want {
			t.Errorf("%s arrived with %s, want %s", method, got, want)
		}
	}
	a.next("initialize")
	got("initialize", `{"protocolVersion":2,"capabilities":{},"info":{"name":"acphost","title":"acphost","version":"0.0.1"}}`)
	opened, err := r.Registry.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: "bot", Cwd: "/w", McpServers: []*supervisorv1.McpServer{{
		Name: "x", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/x"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	got("session/new", `{"cwd":"/w","mcpServers":[{"name":"x","command":"/x","args":[],"env":[],"type":"stdio"}]}`)
	if o := opened.GetSession().GetOptions(); len(o) != 1 || o[0].GetId() != "m" || len(o[0].GetChoices()) != 2 || o[0].GetChoices()[0].GetGroup() != "G" {
		t.Errorf("the options are %v", o)
	}
	for range 20 {
		events, err := r.prompt("s1", "hi")
		if err != nil {
			t.Fatal(err)
		}
		wantWords(t, events, "started", "something", "says hello", "ended end_turn")
	}
	set, err := r.Registry.SetMode(t.Context(), &supervisorv1.SetModeRequest{SessionId: "s1", ModeId: "b"})
	if err != nil {
		t.Fatal(err)
	}
	got("session/set_config_option", `{"sessionId":"s1","configId":"m","value":"b","type":"id"}`)
	if o := set.GetSession().GetOptions(); len(o) != 1 || o[0].GetValue() != "b" {
		t.Errorf("the options are %v", o)
	}
	if _, err := r.Registry.LoadSession(t.Context(), &supervisorv1.LoadSessionRequest{AgentId: "bot", SessionId: "old", Cwd: "/w"}); err != nil {
		t.Fatal(err)
	}
	got("session/resume", `{"sessionId":"old","cwd":"/w","mcpServers":[],"replayFrom":{"type":"start"}}`)
	if err := r.Registry.Authenticate(t.Context(), &supervisorv1.AuthenticateRequest{AgentId: "bot", MethodId: "web"},
		func(*supervisorv1.AuthenticateResponse) error { return nil }); err != nil {
		t.Fatal(err)
	}
	got("auth/login", `{"methodId":"web"}`)
	if _, err := r.Registry.Logout(t.Context(), &supervisorv1.LogoutRequest{AgentId: "bot"}); err != nil {
		t.Fatal(err)
	}
	got("auth/logout", `{}`)
}

func TestVersion2_DraftAcceptsEmptyAnswer(t *testing.T) {
	parts := version2()
	parts["session/prompt"] = func(a *scripted, m message) {
		a.answer(m, `{}`)
		a.update("s1", `{"sessionUpdate":"agent_message_chunk","messageId":"m","content":{"type":"text","text":"hello"}}`)
		a.update("s1", `{"sessionUpdate":"state_update","state":"idle","stopReason":"end_turn"}`)
	}
	r := newRig(t, parts)
	r.start()
	r.open("bot")
	for range 20 {
		events, err := r.prompt("s1", "hi")
		if err != nil {
			t.Fatal(err)
		}
		wantWords(t, events, "started", "says hello", "ended end_turn")
	}
}

// TestVersion2_TurnEndsWithAgentOrSession has an agent that never reports that it is idle.
func TestVersion2_TurnEndsWithAgentOrSession(t *testing.T) {
	for name, end := range map[string]func(r *rig, a *scripted){
		"the agent crashes": func(_ *rig, a *scripted) { a.crash() },
		"the session is closed": func(r *rig, _ *scripted) {
			_, _ = r.Registry.CloseSession(r.t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s1"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			parts := version2()
			accepted := make(chan struct{})
			parts["session/prompt"] = func(a *scripted, m message) { a.answer(m, `{"messageId":"u"}`); close(accepted) }
			parts["session/cancel"] = func(a *scripted, _ message) {
				a.update("s1", `{"sessionUpdate":"state_update","state":"idle","stopReason":"cancelled"}`)
			}
			r := newRig(t, parts)
			_, a := r.start()
			r.open("bot")
			done := make(chan []string)
			go func() { events, _ := r.prompt("s1", "hi"); done <- events }()
			<-accepted
			end(r, a)
			if events := <-done; len(events) < 2 || events[0] != "started" {
				t.Errorf("the events of the turn are %q", events)
			}
		})
	}
}
