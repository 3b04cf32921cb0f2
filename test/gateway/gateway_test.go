package gateway_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

// TestGatewayd_FindsRunningSupervisor: without an address, gatewayd serves the only "acphost serve" of its user.
func TestGatewayd_FindsRunningSupervisor(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	at := testkit.FreePort(t)
	start := func(line string) *wire.Process {
		t.Helper()
		g := wire.Start(t, wire.Options{Name: "gateway's starter", Command: []string{e2e.Program("gatewayd"), "--listen", at}, Dir: p.Work, Env: p.Env()})
		testkit.Eventually(t, "gatewayd prints "+line, func() bool { return strings.Contains(g.Stderr(), line) })
		return g
	}
	refused := func(line string) {
		t.Helper()
		if got := start(line).ExpectExit(); got != 1 {
			t.Errorf("the exit status is %d, want 1", got)
		}
	}
	refused(`no "acphost serve" of yours runs here`)
	one := p.Serve(t, nil)
	g := start("the console is for browsers")
	if err := g.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if got := g.ExpectExit(); got != 0 {
		t.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	two := p.Serve(t, nil)
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
	testkit.Eventually(t, "gatewayd states that its supervisor has ended", func() bool { return strings.Contains(g.Stderr(), "has ended: start") })
	if got := g.ExpectExit(); got != 1 {
		t.Errorf("gatewayd's exit status is %d once its supervisor has ended, want 1", got)
	}
}

func TestGateway_TypeScriptSDKRunsWholeTurns(t *testing.T) {
	t.Parallel()
	for _, scheme := range []string{"http", "ws"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			p := e2e.NewPlace(t)
			g := e2e.NewGateway(t, p, typeScriptAgent(t, p))
			seen := playTypeScriptWith(t, p, "everything", []string{g.URL(scheme)}, "EDITOR_TOKEN_FILE="+g.TokenFile)
			expectEveryMethod(t, p, seen)
			g.Leave()
		})
	}
}

// TestGateway_ShutdownWaitsForTurn: gatewayd that shuts down waits for the end of a turn, and closes the connection
// properly.
func TestGateway_ShutdownWaitsForTurn(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}]", e2e.Program("demoagent")))
	s, err := dialFar(g.Ctx, g.URL("ws"), strings.TrimSpace(string(e2e.Must(t, g.TokenFile))), p.Work)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.ws.CloseNow() }()
	id, err := s.send("session/prompt", s.prompting("slow 20 20"))
	if err != nil {
		t.Fatal(err)
	}
	pieces, notified := 0, false
	for {
		_, raw, err := s.ws.Read(g.Ctx)
		if err != nil {
			t.Fatalf("after %d pieces: %v", pieces, err)
		}
		m := wire.Message{Raw: raw}
		if err := json.Unmarshal(raw, &m); err != nil {
			t.Fatal(err)
		}
		if e2e.PieceOf(m) != "" {
			pieces++
		}
		if pieces == 1 && !notified {
			notified = true
			if err := g.Running.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
				t.Fatal(err)
			}
		}
		if m.Method == "" && string(m.ID) == id {
			break
		}
	}
	if pieces != 20 {
		t.Errorf("%d pieces arrived, want all 20", pieces)
	}
	if _, raw, err := s.ws.Read(g.Ctx); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("got %.100s, %v, want a close with 1001", raw, err)
	}
	if got := g.Running.ExpectExit(); got != 0 {
		t.Errorf("gatewayd's exit status is %d, want 0", got)
	}
	g.Finish()
}

func TestGateway_ReloadsKeys(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys := filepath.Join(p.Home, "keys") // newEdge makes them
	g := e2e.NewGateway(t, p, fmt.Sprintf("[{name: demo, command: [%q]}]", e2e.Program("demoagent")), "--tls-dir", filepath.Join(keys, "server"))
	serial := func() string {
		conn, err := tls.Dial("tcp", g.At, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
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
	if status, out, errs := p.Cli(t, "certs", "renew", keys); status != 0 {
		t.Fatalf("acphost certs renew: %s%s", out, errs)
	}
	after := serial()
	if after == before {
		t.Error("the renewed certificate is not used")
	}
	// Unusable files are ignored.
	if err := os.WriteFile(filepath.Join(keys, "server", "server.crt"), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := serial(); got != after {
		t.Errorf("with a file that is no certificate, %s is used, want %s", got, after)
	}
	g.Leave()
}

// typeScriptAgent is the configuration of an agent of the TypeScript SDK, for agents: in the configuration.
func typeScriptAgent(t *testing.T, p *e2e.Place) string {
	t.Helper()
	return fmt.Sprintf("[{name: ts, command: [node, %q]}]", e2e.Peer(t, "ts-agent.mjs"))
}
