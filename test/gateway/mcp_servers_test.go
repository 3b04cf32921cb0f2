package gateway_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// mcpRules deny one MCP server and allow one. No rule is about any other.
const mcpRules = `
version: 1
rules:
  - {id: no-tunnels, effect: deny, on: [mcp.start], command: ["/opt/mcp/tunnel"], reason: Tunnels are closed here.}
  - {id: notes, effect: allow, on: [mcp.start], command: ["/opt/mcp/notes --read-only"]}
`

// mcpServer is a server as clients name it. secret is the value of its variable TOKEN; empty: it has none.
func mcpServer(name, secret string, args ...string) map[string]any {
	env := []any{}
	if secret != "" {
		env = append(env, map[string]any{"name": "TOKEN", "value": secret})
	}
	return map[string]any{"name": name, "command": "/opt/mcp/" + name, "args": append([]string{}, args...), "env": env}
}

func TestMCPServers_AreDecidedAndRecorded(t *testing.T) {
	t.Parallel()
	for name, connect := range map[string]func(*testing.T, *e2e.Place, string) (client *wire.Peer, leave func()){
		"run": func(t *testing.T, p *e2e.Place, _ string) (*wire.Peer, func()) {
			h := p.Start(t, p.Policy(t, mcpRules, ""), e2e.Role("teller"))
			h.Initialize(`{}`).Result(nil)
			return h.Peer, func() { h.Finish() }
		},
		"gateway": func(t *testing.T, p *e2e.Place, policy string) (*wire.Peer, func()) {
			g := mcpGateway(t, p, policy)
			c := g.Client(t, "client", g.Token("operator"), "")
			return c.Peer, func() { c.Close(); g.Leave() }
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			client, leave := connect(t, p, p.File(t, "../config/policy.yaml", mcpRules))
			open := func(method string, servers ...any) *wire.Call {
				return client.Send(method, map[string]any{"sessionId": "s1", "cwd": p.Work, "mcpServers": servers})
			}
			open("session/new", mcpServer("notes", "", "--read-only"), map[string]any{"type": "http", "name": "far", "url": "https://mcp.example"}).Result(nil)
			open("session/resume", mcpServer("search", "hush")).Result(nil)
			refused := open("session/new", mcpServer("notes", "", "--read-only"), mcpServer("tunnel", "hush", "--all")).Refused(-32602)
			e2e.ExpectContains(t, "the error", refused.Message, `the MCP server "tunnel" is denied: `, "Tunnels are closed here (rule no-tunnels)")
			leave()

			got := mcpStarts(t, p)
			for i, want := range []struct {
				method, name, verdict, rule, outcome, by string
				args, env                                []string
			}{
				{"session/new", "notes", "allow", "notes", "allowed", "policy", []string{"--read-only"}, nil},
				{"session/resume", "search", "ask", "", "allowed", "front", nil, []string{"TOKEN="}},
				{"session/new", "notes", "allow", "notes", "allowed", "policy", []string{"--read-only"}, nil},
				{"session/new", "tunnel", "deny", "no-tunnels", "denied", "policy", []string{"--all"}, []string{"TOKEN="}},
			} {
				if i >= len(got) {
					t.Errorf("the start of %s is not recorded", want.name)
					continue
				}
				g := got[i]
				if g.Action.Method != want.method || g.Action.Title != want.name || !slices.Equal(g.Action.Roots, []string{p.Work}) ||
					!slices.Equal(g.Action.Command.Argv, append([]string{"/opt/mcp/" + want.name}, want.args...)) || !slices.Equal(g.Action.Command.Env, want.env) ||
					g.Verdict != want.verdict || g.Rule != want.rule || g.Outcome != want.outcome || g.AnsweredBy != want.by {
					t.Errorf("recorded %+v, want %+v", g, want)
				}
			}
			if len(got) != 4 {
				t.Errorf("%d starts of MCP servers are recorded, want 4", len(got))
			}
		})
	}
}

// TestMCPServers_RequireOperator has viewers and approvers of a gateway name an MCP server.
func TestMCPServers_RequireOperator(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := mcpGateway(t, p, p.File(t, "../config/policy.yaml", mcpRules))
	open := map[string]any{"cwd": p.Work, "mcpServers": []any{mcpServer("notes", "", "--read-only")}}
	agent := g.Start(&supervisorv1.StartAgentRequest{Command: e2e.Role("teller"), Cwd: p.Work})
	request := &supervisorv1.NewSessionRequest{AgentId: agent.GetId(), Cwd: p.Work, McpServers: []*supervisorv1.McpServer{
		{Name: "notes", Transport: &supervisorv1.McpServer_Stdio{Stdio: &supervisorv1.McpStdio{Command: "/opt/mcp/notes", Args: []string{"--read-only"}}}},
	}}
	message, err := protojson.Marshal(request)
	if err != nil {
		t.Fatal(err)
	}
	for _, role := range []string{"viewer", "approver"} {
		c := e2e.RestClient{G: g, Token: g.Token(role)}
		res := c.Request(g.Ctx, http.MethodPost, "/acphost.supervisor.v1.SessionService/NewSession", string(message)) //nolint:bodyclose // request closes it
		if text, _ := io.ReadAll(res.Body); res.StatusCode != http.StatusForbidden || !strings.Contains(string(text), "this takes the role operator; yours is "+role) {
			t.Errorf("%s: NewSession answers %s: %s, want 403 and the role that it takes", role, res.Status, text)
		}
		attached := g.Client(t, role, g.Token(role), "?attach")
		attached.Send("session/new", open).Refused(-32601)
		attached.Close()
	}
	if len(g.Decisions(t)) != 0 {
		t.Errorf("recorded %v, want nothing", g.Decisions(t))
	}
	// The request itself is good.
	if _, err := g.Sessions.NewSession(g.Ctx, request); err != nil {
		t.Error(e2e.Explain(err))
	}
	if got := mcpStarts(t, p); len(got) != 1 || got[0].Rule != "notes" {
		t.Errorf("recorded %+v, want the start that rule notes allows", got)
	}
	g.Leave()
}

// mcpGateway serves an agent that opens each session, under a policy.
func mcpGateway(t *testing.T, p *e2e.Place, policy string) *e2e.Gateway {
	t.Helper()
	agent, err := json.Marshal(e2e.Role("teller"))
	if err != nil {
		t.Fatal(err)
	}
	e := e2e.NewEdge(t, p, fmt.Sprintf("[{name: teller, command: %s}]", agent), "--policy", policy)
	g := &e2e.Gateway{Edge: e, At: testkit.FreePort(t), Tokens: filepath.Join(p.Home, "gateway", "tokens.json")}
	g.Token("viewer")
	if status, out, errs := p.Cli(t, "certs", "gateway", "--name", "people", "--acts-as", "operator", g.Keys); status != 0 {
		t.Fatalf("acphost certs gateway: %s%s", out, errs)
	}
	g.Begin(p, "people")
	return g
}

// mcpStart is the audit's record of the start of an MCP server.
type mcpStart struct {
	Verdict, Rule, Outcome string
	AnsweredBy             string `json:"answered_by"`
	Action                 struct {
		Kind, Method, Title string
		Command             struct{ Argv, Env []string }
		Roots               []string
	}
}

// mcpStarts reads the starts of MCP servers in the audit.
func mcpStarts(t *testing.T, p *e2e.Place) (all []mcpStart) {
	t.Helper()
	data := e2e.Must(t, filepath.Join(p.Home, ".local", "state", "acphost", "audit.jsonl"))
	if bytes.Contains(data, []byte("hush")) {
		t.Errorf("the audit has the value of a variable:\n%s", data)
	}
	for line := range bytes.Lines(data) {
		var s mcpStart
		if err := json.Unmarshal(line, &s); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if s.Action.Kind == "mcp.start" {
			all = append(all, s)
		}
	}
	return all
}
