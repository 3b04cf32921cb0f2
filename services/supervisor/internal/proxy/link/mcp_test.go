package link

import (
	"context"
	"slices"
	"strings"
	"testing"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestMCPServers_DecidedBeforeSessionOpens(t *testing.T) {
	const open = `{"jsonrpc":"2.0","id":"m","method":"session/new","params":{"cwd":"/w","mcpServers":[{"name":"x","command":"/bin/x","args":["-a","b"],"env":[{"name":"TOKEN","value":"secret"}]},{"type":"http","name":"y","url":"https://example.com"}]}}`
	for _, c := range []struct {
		name    string
		verdict permissionv1.Verdict
		passes  bool
	}{
		{"denied", permissionv1.Verdict_VERDICT_DENY, false},
		{"asked about", permissionv1.Verdict_VERDICT_ASK, true},
		{"allowed", permissionv1.Verdict_VERDICT_ALLOW, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			actions := make(chan *permissionv1.Action, 8)
			r := newRig(t)
			r.handler.decide = func(_ context.Context, a *permissionv1.Action) (*permissionv1.DecideResponse, error) {
				actions <- a
				return &permissionv1.DecideResponse{Verdict: c.verdict, Rule: "r"}, nil
			}
			r.open(`{}`)
			r.client.send(open)
			if c.passes {
				r.agent.want(open)
			} else {
				r.client.wantError(`"m"`, -32602, `the MCP server "x" is denied`)
			}
			a := <-actions
			want := []string{"/bin/x", "-a", "b"}
			if a.GetKind() != "mcp.start" || !slices.Equal(a.GetCommand().GetArgv(), want) || !slices.Equal(a.GetCommand().GetEnv(), []string{"TOKEN="}) ||
				!slices.Equal(a.GetRoots(), []string{"/w"}) || strings.Contains(a.String(), "secret") {
				t.Errorf("decided about %v, want the start of %q in /w, without values of variables", a, want)
			}
			if len(actions) != 0 {
				t.Errorf("decided about %v, which starts no command", <-actions)
			}
		})
	}
}
