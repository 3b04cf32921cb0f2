package e2e

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// Gateway is a running gatewayd with the supervisor behind it.
type Gateway struct {
	*Edge
	Running   *wire.Process
	At        string // HOST:PORT
	TokenFile string // with the token of an operator
	Tokens    string // the file of all tokens
	env       []string
}

// NewGateway serves the agents that a part of a configuration names.
func NewGateway(t *testing.T, p *Place, agents string, flags ...string) *Gateway {
	t.Helper()
	g := &Gateway{Edge: NewEdge(t, p, agents), At: testkit.FreePort(t), Tokens: filepath.Join(p.Home, "gateway", "tokens.json")}
	g.TokenFile = p.File(t, "../operator.token", g.Token("operator"))
	if err := os.Chmod(g.TokenFile, 0o600); err != nil {
		t.Fatal(err)
	}
	g.Begin(p, "gateway", flags...)
	return g
}

// Begin starts gatewayd with the keys in a folder of the edge's, and waits until it serves.
func (g *Gateway) Begin(p *Place, keys string, flags ...string) {
	g.T.Helper()
	command := append([]string{Program("gatewayd"), "--listen", g.At, "--tokens", g.Tokens, "--supervisor", g.address,
		"--supervisor-tls-dir", filepath.Join(g.Keys, keys), "--log-level", "debug"}, flags...)
	g.Running = wire.Start(g.T, wire.Options{Name: "gateway's starter", Command: command, Dir: p.Work, Env: p.Env(g.env...)})
	if !testkit.Poll(func() bool {
		conn, err := net.Dial("tcp", g.At)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		g.T.Fatal("gatewayd does not serve")
	}
}

// Token makes a token of a role.
func (g *Gateway) Token(role string, more ...string) string {
	g.T.Helper()
	status, out, errs := g.Cli(g.T, append([]string{"tokens", "create", "--role", role, "--file", g.Tokens}, more...)...)
	if status != 0 {
		g.T.Fatalf("acphost tokens create: %s", errs)
	}
	return strings.TrimSpace(out)
}

// URL is the address of ACP over HTTP or WebSocket.
func (g *Gateway) URL(scheme string) string { return scheme + "://" + g.At + "/acp" }

// Leave ends gateway and supervisor in order, and expects nothing to be left.
func (g *Gateway) Leave() {
	g.T.Helper()
	if err := g.Running.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.T.Fatal(err)
	}
	if got := g.Running.ExpectExit(); got != 0 {
		g.T.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	g.Finish()
}
