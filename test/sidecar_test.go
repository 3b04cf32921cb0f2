package e2e_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/testkit"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/test/wire"
)

// sidecar is a daemon that runs by itself.
type sidecar struct {
	cmd  *exec.Cmd
	log  bytes.Buffer
	once sync.Once
	t    testing.TB
}

// secret makes a file with the secret of a sidecar.
func (p *place) secret(t testing.TB) string {
	t.Helper()
	file := filepath.Join(p.home, "secret")
	if err := os.WriteFile(file, []byte(strings.Repeat("k", 32)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// sidecar starts a daemon as a sidecar of this user that knows its supervisors by the place's secret.
func (p *place) sidecar(t testing.TB, name string) (s *sidecar, address string) {
	t.Helper()
	return p.sidecarKnownBy(t, name, "--secret-file", p.secret(t))
}

// sidecarKnownBy is sidecar with the flags that say how it knows its supervisors.
func (p *place) sidecarKnownBy(t testing.TB, name string, flags ...string) (s *sidecar, address string) {
	t.Helper()
	address = "unix://" + filepath.Join(p.home, "tmp", name+".sock")
	s = &sidecar{t: t, cmd: exec.Command(program(name), append([]string{"--listen", address}, flags...)...)}
	s.cmd.Env, s.cmd.Stderr = p.env(), &s.log
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.kill)
	if !testkit.Poll(func() bool { _, err := os.Stat(strings.TrimPrefix(address, "unix://")); return err == nil }) {
		t.Fatalf("%s does not listen", name)
	}
	return s, address
}

func (s *sidecar) kill() {
	s.once.Do(func() {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("standard error of %s:\n%s", s.cmd.Path, s.log.String())
		}
	})
}

func TestDaemonsServeAsSidecarsToo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	daemons, sockets := newPlace(t), map[string]string{}
	running := map[string]*sidecar{}
	for _, name := range []string{"fsd", "termd", "permd"} {
		running[name], sockets[name] = daemons.sidecar(t, name)
	}
	p.file(t, "a.txt", "a\n")
	// The agent runs as the same user here, so that it could read the secret as well.
	entry := func(name string) string {
		return fmt.Sprintf("{address: %q, secret_file: %q, agent_may_call: true}", sockets[name], daemons.secret(t))
	}
	flags := p.config(t, fmt.Sprintf("handlers: {fs: %s, terminal: %s, permission: %s}\n", entry("fsd"), entry("termd"), entry("permd")))
	s := p.sceneWith(t, showsTerminals, flags, nil)
	if got := content(s.read("a.txt")); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.write("b.txt", "b\n").Result(nil)
	var ran struct {
		Output   string
		ExitCode int
	}
	s.agent.Request("terminal/run", params("command", "cat b.txt; exit 3"), &ran)
	if ran.Output != "b\n" || ran.ExitCode != 3 {
		t.Errorf("the command gave %+v", ran)
	}
	// One that dies is missed at once, and found again when it is back.
	running["fsd"].kill()
	if e := s.read("a.txt").Refused(-32603); !strings.Contains(e.Message, "fs") {
		t.Errorf("the agent was told %q", e.Message)
	}
	daemons.sidecar(t, "fsd")
	if !testkit.Poll(func() bool { return s.read("a.txt").Answer().Error == nil }) {
		t.Error("the sidecar was not found again")
	}
	// Two supervisors share them, and none sees the other's terminals.
	q := newPlace(t)
	other := q.scene(t, flags)
	var made struct{ TerminalID string }
	s.agent.Request("terminal/create", params("command", "sleep", "args", []string{"1000"}), &made)
	other.agent.Send("terminal/output", params("terminalId", made.TerminalID)).Refused(-32002)
	var terminals struct{ Terminals []struct{ TerminalID string } }
	if other.state("ListTerminals", &terminals); len(terminals.Terminals) != 0 {
		t.Errorf("the other supervisor lists %+v", terminals)
	}
	other.finish()
	// The terminals of a supervisor that is killed go with it, though their daemon stays.
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	if !testkit.Poll(func() bool {
		left, err := proc.Descendants(running["termd"].cmd.Process.Pid)
		return errors.Is(err, proc.ErrUnsupported) || err == nil && !strings.Contains(wire.Describe(left), "sleep 1000")
	}) {
		t.Error("a terminal outlived its supervisor")
	}
}

// What "acphost certs sidecar" makes is all that a sidecar and its supervisor need, and "certs renew" is all that it takes to
// go on: the sidecar is never started again here, and the supervisor finds it by the new certificates after the old ones.
func TestCertificatesOfASidecarAreMadeAndRenewedByOneCommand(t *testing.T) {
	t.Parallel()
	p, daemons := newPlace(t), newPlace(t)
	keys := filepath.Join(daemons.home, "fs keys")
	certs := func(args ...string) string {
		t.Helper()
		code, out, errs := daemons.cli(t, append([]string{"certs"}, args...)...)
		if code != 0 {
			t.Fatalf("certs %q: status %d: %s", args, code, errs)
		}
		return out
	}
	certs("sidecar", "fs", keys)
	server, client := filepath.Join(keys, "sidecar"), filepath.Join(keys, "supervisor")
	_, address := daemons.sidecarKnownBy(t, "fsd", "--tls-ca", filepath.Join(server, "ca.crt"),
		"--tls-cert", filepath.Join(server, "server.crt"), "--tls-key", filepath.Join(server, "server.key"))
	p.file(t, "a.txt", "a\n")
	reads := func(dir string) error {
		s := p.scene(t, p.config(t, fmt.Sprintf("handlers: {fs: {address: %q, tls: {ca: %q, cert: %q, key: %q}, agent_may_call: true}}\n", // the agent is this user
			address, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))))
		defer s.finish()
		if e := s.read("a.txt").Answer().Error; e != nil {
			return errors.New(e.Message)
		}
		return nil
	}
	if err := reads(client); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(daemons.home, "old")
	if err := os.CopyFS(old, os.DirFS(client)); err != nil {
		t.Fatal(err)
	}
	if out := certs("renew", keys); !strings.Contains(out, "sidecar/server.crt") || !strings.Contains(out, "supervisor/client.crt") {
		t.Errorf("renewed is %q", out)
	}
	for what, dir := range map[string]string{"the new ones": client, "the old ones": old} {
		if err := reads(dir); err != nil {
			t.Errorf("with %s: %v", what, err)
		}
	}
}

func TestASidecarThatAnyoneMightCallDoesNotStart(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for _, args := range [][]string{
		{"--listen", "unix://" + filepath.Join(p.home, "tmp", "x.sock")},
		{"--listen", "unix://" + filepath.Join(p.home, "tmp", "x.sock"), "--allow-uid", fmt.Sprint(os.Getuid())},
		{"--listen", "tcp://127.0.0.1:0"},
		{"--listen", "tcp://127.0.0.1:0", "--allow-uid", "0"},
	} {
		out, err := wire.Command(t, program("fsd"), args...).CombinedOutput()
		if err == nil {
			t.Errorf("fsd %q ended well", args)
		}
		if !strings.Contains(string(out), "--tls-cert") {
			t.Errorf("fsd %q says %q", args, out)
		}
	}
}

// An agent of the sidecar's own user makes a context of its own and calls Run.
func TestNobodyRunsCommandsInASidecarWithoutItsSecret(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	_, address := p.sidecar(t, "termd")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	run := func(headers ...string) (*terminalv1.RunResponse, error) {
		return terminalv1.NewTerminalServiceClient(conn).Run(metadata.AppendToOutgoingContext(wire.Context(t), headers...), &terminalv1.RunRequest{
			Context: &acpv1.CallContext{
				SessionId: "s", Scope: strings.Repeat("0", 32), Agent: "a", ProtocolVersion: 1, Roots: []*acpv1.Root{{Path: p.work}},
			},
			SessionId: "s", Command: "touch owned",
		})
	}
	if _, err := run(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the secret: %v, want UNAUTHENTICATED", err)
	}
	if _, err := os.Stat(filepath.Join(p.work, "owned")); err == nil {
		t.Error("the command ran")
	}
	secret := strings.TrimSpace(string(must(t, p.secret(t))))
	if res, err := run("authorization", "Bearer "+secret); err != nil || res.GetExitCode() != 0 {
		t.Errorf("with the secret: %v, %v", res, err)
	}
}

func TestASidecarWhoseSecretTheAgentReadsIsNotUsed(t *testing.T) {
	t.Parallel()
	p, daemons := newPlace(t), newPlace(t)
	_, address := daemons.sidecar(t, "termd")
	entry := fmt.Sprintf("handlers: {terminal: {address: %q, secret_file: %q}}\n", address, daemons.secret(t))
	flags := p.config(t, entry)
	for _, args := range [][]string{
		append(append([]string{"run"}, flags...), "--", program("demoagent")), append([]string{"serve"}, flags...), append([]string{"config", "check"}, flags...),
	} {
		code, out, errs := p.cli(t, args...)
		if code == 0 || !strings.Contains(out+errs, "an agent could read this secret") || !strings.Contains(out+errs, "agent_may_call") {
			t.Errorf("acphost %q: status %d\n%s%s", args, code, out, errs)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("an agent of another user takes root")
	}
	// With agents of another user a terminal has to act as that user, who could read its secret; a policy does not.
	flags = p.config(t, "agent: {user: '65534'}\n"+entry)
	if code, out, errs := p.cli(t, append([]string{"config", "check"}, flags...)...); code == 0 || !strings.Contains(out+errs, "read the sidecar's copy") {
		t.Errorf("a terminal that runs as the agents' user: status %d\n%s%s", code, out, errs)
	}
	_, address = daemons.sidecar(t, "permd")
	flags = p.config(t, fmt.Sprintf("agent: {user: '65534'}\npermission: {chain: [{address: %q, secret_file: %q}]}\n", address, daemons.secret(t)))
	if code, out, errs := p.cli(t, append([]string{"config", "check"}, flags...)...); code != 0 {
		t.Errorf("with agents of another user: status %d\n%s%s", code, out, errs)
	}
}
