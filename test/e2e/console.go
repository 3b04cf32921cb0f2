package e2e

import (
	"path/filepath"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// NewConsole returns a gateway whose certificate permits calls in the name of people.
func NewConsole(t *testing.T, p *Place, flags ...string) *Gateway {
	t.Helper()
	return NewConsoleWith(t, p, flags, nil)
}

// NewConsoleWith is newConsole with flags for gatewayd, too, and more of an environment.
func NewConsoleWith(t *testing.T, p *Place, flags, gatewayFlags []string, env ...string) *Gateway {
	t.Helper()
	e := &Edge{Keys: filepath.Join(p.Home, "keys"), address: testkit.FreePort(t)}
	p.MakeKeys(t, e.Keys)
	if status, out, errs := p.Cli(t, "certs", "gateway", "--acts-as", "operator", e.Keys); status != 0 {
		t.Fatalf("acphost certs gateway: %s%s", out, errs)
	}
	e.Server = p.Serve(t, append(flags, "--listen", e.address, "--tls-dir", p.Deploy(t, e.Keys)))
	g := &Gateway{Edge: e, At: testkit.FreePort(t), Tokens: filepath.Join(p.Home, "gateway", "tokens.json"), env: env}
	g.Token("viewer")
	g.Begin(p, "gateway", append(gatewayFlags, "--host", "localhost")...)
	return g
}

// SessionAt is the fragment of a session's view.
func SessionAt(s *supervisorv1.Session) string {
	return "#/session/" + s.GetAgentId() + "/" + s.GetSessionId()
}
