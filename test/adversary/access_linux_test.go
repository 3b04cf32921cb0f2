package adversary

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/testkit"
	"github.com/acphost/acphost/test/wire"
)

// keys makes an authority with the keys of everybody, as "acphost certs init" lays them out.
func keys(t *testing.T, p *wire.Place) string {
	t.Helper()
	dir := filepath.Join(p.Home, "keys")
	if out, status := runAs(t, p, "certs", "init", dir); status != 0 {
		t.Fatalf("acphost certs init: %s", out)
	}
	return dir
}

// serve starts "acphost serve FLAGS -- the attacker". There is no agent, and no hand, where acphost refuses to start.
func serve(t *testing.T, p *wire.Place, flags ...string) *fixture {
	t.Helper()
	puppet, side := p.NewStage(t), p.NewStage(t)
	command := append([]string{program("acphost"), "serve"}, flags...)
	command = append(command, "--", program("attacker"), "agent", puppet.Path, side.Path)
	s := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "keeper", Command: command, Dir: p.Work, Env: p.Env()})}
	s.raise(puppet, side)
	if s.agent != nil {
		s.agent.Reply(s.agent.Expect("initialize"), map[string]any{"protocolVersion": 1, "agentInfo": map[string]any{"name": "attacker", "version": "0.1"}})
	}
	return s
}

// endServe ends a supervisor as a service manager does.
func (s *fixture) endServe() {
	s.t.Helper()
	select {
	case <-s.Done():
	default:
		if err := s.Cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Fatal(err)
		}
	}
	s.ExpectExit()
	s.ExpectNobody(s.t, nil)
}

// TestSupervisor_RejectsOwnAgent: over TCP the certificate decides, and "acphost certs init" stores the keys of all
// clients in one folder.
func TestSupervisor_RejectsOwnAgent(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir, address := keys(t, p), testkit.FreePort(t)
	s := serve(t, p, "--listen", address, "--tls-dir", dir)
	if s.hand == nil {
		if got := s.ExpectExit(); got == 0 || !strings.Contains(s.Stderr(), "key") {
			t.Errorf("it ended with %d and said %q, want a word about keys", got, s.Stderr())
		}
		return
	}
	for _, h := range []*hand{s.hand, s.hand.spawn("stray")} {
		for _, role := range []string{"operator", "approver", "viewer", ""} {
			from := ""
			if role != "" {
				from = filepath.Join(dir, role)
			}
			canary := s.Path("canary")
			for _, a := range h.try("call-tls", append([]string{filepath.Join(dir, "ca.crt"), from, address}, verbs("x", canary)...)...) {
				// With no certificate there is no connection at all; a key that cannot be read is the end of it, too.
				if a.Err == "" || !wall(a) && a.Err != "Unavailable" && !strings.HasPrefix(a.What, "read") {
					t.Errorf("ATTACK SUCCEEDED: %s called as %q: %s", h.name, role, a)
				}
			}
			notWritten(t, canary)
		}
		h.leave()
	}
	s.endServe()
}

// TestSupervisor_IdleConnectionsDoNotBlockClients opens 2,000 connections without a certificate that send nothing.
func TestSupervisor_IdleConnectionsDoNotBlockClients(t *testing.T) {
	t.Parallel()
	p := wire.NewPlace(t)
	dir, address := keys(t, p), testkit.FreePort(t)
	// The clients' keys are with the clients.
	clients := filepath.Join(p.Home, "clients")
	if err := os.Mkdir(clients, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"operator", "approver", "viewer", "ca.key"} {
		if err := os.Rename(filepath.Join(dir, name), filepath.Join(clients, name)); err != nil {
			t.Fatal(err)
		}
	}
	// And the server's with the server, where they lie in a folder of their own.
	if own := filepath.Join(p.Home, "server"); os.Rename(filepath.Join(dir, "server"), own) == nil {
		dir = own
	}
	command := []string{program("acphost"), "serve", "--listen", address, "--tls-dir", dir}
	s := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "keeper", Command: command, Dir: p.Work, Env: p.Env()})}
	look := func() (string, int) {
		return runAs(t, p, "agents", "running", "--address", address, "--tls-dir", filepath.Join(clients, "viewer"))
	}
	if !testkit.Poll(func() bool { _, status := look(); return status == 0 }) {
		out, _ := look()
		t.Fatalf("it does not serve: %s\n%s", out, s.Stderr())
	}
	stage := p.NewStage(t)
	flooder := &fixture{Place: p, t: t, Process: wire.Start(t, wire.Options{Name: "flooder", Command: []string{program("attacker"), "hand", stage.Path}, Env: p.Env()})}
	h := flooder.awaitHand("somebody without a certificate", stage)
	h.try("flood", address, "2000")
	for range 3 {
		begun := time.Now()
		out, status := look()
		if took := time.Since(begun); status != 0 || took > testkit.Scale(8*time.Second) {
			t.Errorf("ATTACK SUCCEEDED: a client with a certificate waited %s (status %d): %s", took.Round(time.Second/10), status, out)
			break
		}
	}
	h.leave()
	s.endServe()
}

// TestSidecar_RejectsAgent: an agent has the user id that the sidecar serves, and names the session that it calls for,
// as only a supervisor may.
func TestSidecar_RejectsAgent(t *testing.T) {
	t.Parallel()
	for name, call := range map[string]func(canary, root string) []string{
		"termd": func(canary, root string) []string {
			return []string{"acphost.terminal.v1.TerminalService/Run", fmt.Sprintf(`{"context": {"sessionId": "s1", "scope": "0123456789abcdef0123456789abcdef", "roots": [{"path": %q}]}, "sessionId": "s1", "command": %q, "args": ["canary", %q]}`, root, program("attacker"), canary)}
		},
		"fsd": func(canary, root string) []string {
			return []string{"acphost.fs.v1.FileSystemService/WriteTextFile", fmt.Sprintf(`{"context": {"sessionId": "s1", "scope": "0123456789abcdef0123456789abcdef", "roots": [{"path": %q}]}, "sessionId": "s1", "path": %q, "content": "forged"}`, root, canary)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := openFixture(t, nil)
			socket := filepath.Join(s.Home, "tmp", name+".sock")
			daemon := wire.Start(t, wire.Options{Name: name, Command: []string{program(name), "--listen", "unix://" + socket, "--allow-uid", fmt.Sprint(os.Getuid())}, Env: s.Env()})
			serves := false
			if !testkit.Poll(func() bool {
				select {
				case <-daemon.Done():
					return true
				default:
				}
				serves = testkit.Listens(socket)
				return serves
			}) {
				t.Fatal("it neither serves nor ends")
			}
			if !serves {
				if got := daemon.ExpectExit(); got == 0 || daemon.Stderr() == "" {
					t.Errorf("it ended with %d and said %q, want why", got, daemon.Stderr())
				}
			} else {
				for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("stray")} {
					canary := s.Path("canary")
					for _, a := range h.try("call", append([]string{"unix:" + socket}, call(canary, s.Work)...)...) {
						if !wall(a) {
							t.Errorf("ATTACK SUCCEEDED: %s called %s: %s", h.name, name, a)
						}
					}
					notWritten(t, canary)
					h.leave()
				}
				if err := daemon.Cmd.Process.Kill(); err != nil {
					t.Error(err)
				}
				<-daemon.Done()
			}
			s.finish()
		})
	}
}

// TestHandlerSocket_RejectsAgent: the socket of a handler has a path that an agent can find.
func TestHandlerSocket_RejectsAgent(t *testing.T) {
	t.Parallel()
	s := openFixture(t, nil)
	data, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	own := s.sockets()
	tried := 0
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		path := f[len(f)-1]
		if !strings.HasPrefix(path, s.Home) || strings.Contains(path, "/stage") || path == own[0] || strings.HasSuffix(path, ".new") {
			continue
		}
		if f[3] != "00010000" { // it listens
			continue
		}
		tried++
		canary := s.Path("canary")
		for _, a := range s.hand.try("call", "unix:"+path,
			"acphost.fs.v1.FileSystemService/WriteTextFile", fmt.Sprintf(`{"context": {"scope": "0123456789abcdef0123456789abcdef", "roots": [{"path": %q}]}, "path": %q, "content": "forged"}`, s.Work, canary),
			"acphost.terminal.v1.TerminalService/Run", fmt.Sprintf(`{"context": {"scope": "0123456789abcdef0123456789abcdef", "roots": [{"path": %q}]}, "command": %q, "args": ["canary", %q]}`, s.Work, program("attacker"), canary),
			"acphost.plugin.v1.PluginService/Describe", `{}`) {
			if a.Err == "" || !wall(a) && a.Err != "Unavailable" {
				t.Errorf("ATTACK SUCCEEDED: %s called a handler at %s: %s", s.hand.name, path, a)
			}
		}
		notWritten(t, canary)
	}
	if tried < 3 {
		t.Errorf("%d sockets of handlers were tried, want those of fsd, termd and permd", tried)
	}
	s.finish()
}

// TestCommandLine_RejectsAgent runs acphost as the agent: the same program, with the same user and files as a person.
func TestCommandLine_RejectsAgent(t *testing.T) {
	needsConfinement(t)
	t.Parallel()
	s := openFixture(t, policy(askWrites, ""))
	_, _, id := s.question("stolen")
	s.File(t, ".acphost/policy.yaml", "version: 1\nrules: [{id: all, effect: allow, path: [\"/**\"]}]\n")
	for _, h := range []*hand{s.hand, s.command(), s.hand.spawn("orphan")} {
		for _, args := range [][]string{
			{"approvals", "answer", id, "allow_once"}, {"policy", "reload"}, {"policy", "trust", "--yes", s.Path(".acphost/policy.yaml")}, {"policy", "trust", s.Work},
			{"handler", "restart", "fs"}, {"handler", "swap", "permission", "--", program("attacker"), "canary", s.Path("canary")}, {"grants", "revoke", "all"},
		} {
			h.refused("run", append([]string{program("acphost")}, args...)...)
		}
		h.leave()
	}
	notWritten(t, s.Path("stolen"))
	notWritten(t, s.Path("canary"))
	s.finish()
}
