package programs

import (
	"context"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/fault"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestLogin_HintsInErrors(t *testing.T) {
	const capabilities = `{"protocolVersion":1,"agentCapabilities":{"sessionCapabilities":{"resume":{}}},"authMethods":[`
	for name, tt := range map[string]struct {
		preset     bool
		initialize string
		want       string
	}{
		"a preset whose agent does it by itself": {true, capabilities + `{"id":"web","name":"Web"}]}`, `(log in with "acphost agents login codex-acp", or by Authenticate)`},
		"a preset whose agent offers nothing":    {true, plain, `(log in with "acphost agents login codex-acp")`},
		"a command with a terminal":              {false, capabilities + `{"id":"tty","name":"T","type":"terminal","args":["login"]}]}`, `(log in by running "/opt/bot --acp login" on a terminal)`},
		"a command without text":                 {false, plain, "(log in as its documentation says)"},
	} {
		t.Run(name, func(t *testing.T) {
			in := false
			login := func(first part) part {
				return func(a *scripted, m message) {
					if in {
						first(a, m)
						return
					}
					in = true
					refuse(-32000, "Authentication required")(a, m)
				}
			}
			r := newRig(t, map[string]part{
				"initialize": answer(tt.initialize), "session/new": login(answer(`{"sessionId":"s1"}`)), "session/prompt": refuse(-32000, "Authentication required"),
			}, func(o *Options) {
				o.Agents.Presets = func(context.Context, string) (command, env []string, id string, err error) {
					return []string{"/opt/bot", "--acp"}, nil, "codex-acp", nil
				}
			})
			ag, _ := r.start(func(q *supervisorv1.StartAgentRequest) {
				if tt.preset {
					q.Preset, q.Command = "codex", nil
				}
			})
			_, err := r.NewSession(t.Context(), &supervisorv1.NewSessionRequest{AgentId: ag.GetId(), Cwd: "/w"})
			wantFault(t, err, fault.OfAgent, authKind, tt.want)
			r.open(ag.GetId())
			others := r.hub.Subscribe(ag.GetId(), "s1")
			defer others.Close()
			var ended *supervisorv1.TurnEnded
			if err := r.Prompt(t.Context(), promptOf("s1", "hi"), func(e *supervisorv1.Event) error {
				ended = e.GetTurnEnded()
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if e := ended.GetError(); e.GetKind() != authKind || strings.Count(e.GetMessage(), tt.want) != 1 {
				t.Errorf("the turn ended with %v, want %q", e, tt.want)
			}
			events, _ := tellsOf(t, others, 2) // the event is theirs, too: it must not be changed
			if e := events[1].GetTurnEnded().GetError(); e.GetKind() != authKind || strings.Contains(e.GetMessage(), "log in with") {
				t.Errorf("others receive %v", e)
			}
		})
	}
}
