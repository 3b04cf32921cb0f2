package e2e_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

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
	env       []string
}

// newGateway serves the agents that a part of a configuration names.
func newGateway(t *testing.T, p *place, agents string, flags ...string) *gateway {
	t.Helper()
	g := &gateway{edge: newEdge(t, p, agents), at: testkit.FreePort(t), tokens: filepath.Join(p.home, "gateway", "tokens.json")}
	g.tokenFile = p.file(t, "../operator.token", g.token("operator"))
	if err := os.Chmod(g.tokenFile, 0o600); err != nil {
		t.Fatal(err)
	}
	g.begin(p, "gateway", flags...)
	return g
}

// begin starts gatewayd with the keys in a folder of the edge's, and waits until it serves.
func (g *gateway) begin(p *place, keys string, flags ...string) {
	g.t.Helper()
	command := append([]string{program("gatewayd"), "--listen", g.at, "--tokens", g.tokens, "--supervisor", g.address,
		"--supervisor-tls-dir", filepath.Join(g.keys, keys), "--log-level", "debug"}, flags...)
	g.process = wire.Start(g.t, wire.Options{Name: "gateway's starter", Command: command, Dir: p.work, Env: p.env(g.env...)})
	if !testkit.Poll(func() bool {
		conn, err := net.Dial("tcp", g.at)
		if err == nil {
			_ = conn.Close()
		}
		return err == nil
	}) {
		g.t.Fatal("gatewayd does not serve")
	}
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

// TestTheGatewayOfTheSupervisorThatRuns: without a word of where it is, gatewayd serves the one "acphost serve" of its user.
func TestTheGatewayOfTheSupervisorThatRuns(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	at := testkit.FreePort(t)
	start := func(says string) *wire.Process {
		t.Helper()
		g := wire.Start(t, wire.Options{Name: "gateway's starter", Command: []string{program("gatewayd"), "--listen", at}, Dir: p.work, Env: p.env()})
		testkit.Eventually(t, "gatewayd says "+says, func() bool { return strings.Contains(g.Stderr(), says) })
		return g
	}
	refused := func(says string) {
		t.Helper()
		if got := start(says).ExpectExit(); got != 1 {
			t.Errorf("the exit status is %d, want 1", got)
		}
	}
	refused(`no "acphost serve" of yours runs here`)
	one := p.serve(t, nil)
	g := start("the console is for browsers")
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := g.ExpectExit(); got != 0 {
		t.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	two := p.serve(t, nil)
	refused("choose one by --socket")
	if err := one.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	one.ExpectExit()
	g = start("the console is for browsers")
	if err := two.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	two.ExpectExit()
	testkit.Eventually(t, "gatewayd says that its supervisor has ended", func() bool { return strings.Contains(g.Stderr(), "has ended: start") })
	if got := g.ExpectExit(); got != 1 {
		t.Errorf("gatewayd's exit status is %d once its supervisor has ended, want 1", got)
	}
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

// Told to end, gatewayd lets a turn go on to its end, and says goodbye.
func TestAGatewayThatIsToldToEndLetsTheTurnEnd(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	g := newGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}]", program("demoagent")))
	s, err := dialFar(g.ctx, g.url("ws"), strings.TrimSpace(string(must(t, g.tokenFile))), p.work)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.ws.CloseNow() }()
	id, err := s.send("session/prompt", s.prompting("slow 20 20"))
	if err != nil {
		t.Fatal(err)
	}
	pieces, told := 0, false
	for {
		_, raw, err := s.ws.Read(g.ctx)
		if err != nil {
			t.Fatalf("after %d pieces: %v", pieces, err)
		}
		m := wire.Message{Raw: raw}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if pieceOf(m) != "" {
			pieces++
		}
		if pieces == 1 && !told {
			told = true
			if err := g.process.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if m.Method == "" && string(m.ID) == id {
			break
		}
	}
	if pieces != 20 {
		t.Errorf("%d pieces came, want all 20", pieces)
	}
	if _, raw, err := s.ws.Read(g.ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("got %.100s, %v, want a close with 1001", raw, err)
	}
	if got := g.process.ExpectExit(); got != 0 {
		t.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	g.finish()
}

func TestAGatewayReadsItsKeysAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys := filepath.Join(p.home, "keys") // newEdge makes them
	g := newGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}]", program("demoagent")), "--tls-dir", filepath.Join(keys, "server"))
	serial := func() string {
		conn, err := tls.Dial("tcp", g.at, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
	}
	before := serial()
	if got := serial(); got != before {
		t.Errorf("the certificate changed by itself: %s, %s", before, got)
	}
	if status, out, errs := p.cli(t, "certs", "renew", keys); status != 0 {
		t.Fatalf("acphost certs renew: %s%s", out, errs)
	}
	after := serial()
	if after == before {
		t.Error("the renewed certificate is not used")
	}
	// What cannot be used does not count.
	if err := os.WriteFile(filepath.Join(keys, "server", "server.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != after {
		t.Errorf("with a file that is no certificate, %s is used, want %s", got, after)
	}
	g.leave()
}
