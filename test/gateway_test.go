package e2e_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// gateway is a running gatewayd with the supervisor behind it.
type gateway struct {
	*edge
	process   *wire.Process
	at        string // HOST:PORT
	tokenFile string // with the token of an operator
	tokens    string // the file of all tokens
}

// newGateway serves the agents that a part of a configuration names.
func newGateway(t *testing.T, p *place, agents string, flags ...string) *gateway {
	t.Helper()
	g := &gateway{edge: newEdge(t, p, agents), at: freePort(t), tokens: filepath.Join(p.home, "gateway", "tokens.json")}
	g.tokenFile = p.file(t, "../operator.token", g.token("operator"))
	if err := os.Chmod(g.tokenFile, 0o600); err != nil {
		t.Fatal(err)
	}
	command := append([]string{program("gatewayd"), "--listen", g.at, "--tokens", g.tokens, "--supervisor", g.address,
		"--supervisor-tls-dir", filepath.Join(g.keys, "gateway"), "--log-level", "debug"}, flags...)
	g.process = wire.Start(t, wire.Options{Name: "gateway's starter", Command: command, Dir: p.work, Env: p.env()})
	if !testkit.Poll(func() bool {
		conn, err := net.Dial("tcp", g.at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		t.Fatal("gatewayd does not serve")
	}
	return g
}

// token makes a token of a role.
func (g *gateway) token(role string, more ...string) string {
	g.t.Helper()
	status, out, errs := g.cli(g.t, append([]string{"tokens", "create", "--role", role, "--file", g.tokens}, more...)...)
	if status != 0 {
		g.t.Fatalf("acphost tokens create: %s", errs)
	}
	return strings.TrimSpace(out)
}

func (g *gateway) url(scheme string) string { return scheme + "://" + g.at + "/acp" }

// leave ends gateway and supervisor in order, and expects nothing to be left.
func (g *gateway) leave() {
	g.t.Helper()
	if err := g.process.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		g.t.Fatal(err)
	}
	if got := g.process.ExpectExit(); got != 0 {
		g.t.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	g.finish()
}

func (p *place) typeScriptAgent(t *testing.T) string {
	t.Helper()
	return fmt.Sprintf("[{name: ts, command: [node, %q]}]", peer(t, "ts-agent.mjs"))
}

func TestTheTypeScriptSDKHasWholeTurnsThroughTheGateway(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "ws"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			g := newGateway(t, p, p.typeScriptAgent(t))
			seen := playTypeScriptWith(t, p, "everything", []string{g.url(scheme)}, "EDITOR_TOKEN_FILE="+g.tokenFile)
			expectEveryMethod(t, p, seen)
			g.leave()
		})
	}
}
