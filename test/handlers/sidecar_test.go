package handlers_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
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
	"github.com/acphost/acphost/test/e2e"
	"github.com/acphost/acphost/test/wire"
)

func TestSidecar_DaemonsServe(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	daemons, sockets := e2e.NewPlace(t), map[string]string{}
	running := map[string]*e2e.Sidecar{}
	for _, name := range []string{"fsd", "termd", "permd"} {
		running[name], sockets[name] = daemons.Sidecar(t, name)
	}
	p.File(t, "a.txt", "a\n")
	// The agent runs as the same user here, so that it could read the secret as well.
	entry := func(name string) string {
		return fmt.Sprintf("{address: %q, secret_file: %q, agent_may_call: true}", sockets[name], daemons.Secret(t))
	}
	flags := p.Config(t, fmt.Sprintf("handlers: {fs: %s, terminal: %s, permission: %s}\n", entry("fsd"), entry("termd"), entry("permd")))
	s := p.FixtureWith(t, e2e.ShowsTerminals, flags, nil)
	if got := e2e.Content(s.Read("a.txt")); got != "a\n" {
		t.Errorf("the agent read %q", got)
	}
	s.WriteFile("b.txt", "b\n").Result(nil)
	var ran struct {
		Output   string
		ExitCode int
	}
	s.Agent.Request("terminal/run", e2e.Params("command", "cat b.txt; exit 3"), &ran)
	if ran.Output != "b\n" || ran.ExitCode != 3 {
		t.Errorf("the command gave %+v", ran)
	}
	// A sidecar that dies is noticed at once, and used again when it is back.
	running["fsd"].Kill()
	if e := s.Read("a.txt").Refused(-32603); !strings.Contains(e.Message, "fs") {
		t.Errorf("the agent received %q", e.Message)
	}
	daemons.Sidecar(t, "fsd")
	if !testkit.Poll(func() bool { return s.Read("a.txt").Answer().Error == nil }) {
		t.Error("the sidecar was not found again")
	}
	// Two supervisors share them, and neither has access to the other's terminals.
	q := e2e.NewPlace(t)
	other := q.Fixture(t, flags)
	var made struct{ TerminalID string }
	s.Agent.Request("terminal/create", e2e.Params("command", "sleep", "args", []string{"1000"}), &made)
	other.Agent.Send("terminal/output", e2e.Params("terminalId", made.TerminalID)).Refused(-32002)
	var terminals struct{ Terminals []struct{ TerminalID string } }
	if other.State("ListTerminals", &terminals); len(terminals.Terminals) != 0 {
		t.Errorf("the other supervisor lists %+v", terminals)
	}
	other.Finish()
	// The terminals of a supervisor that is killed go with it, though their daemon stays.
	if err := s.Cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	s.ExpectExit()
	if !testkit.Poll(func() bool {
		left, err := proc.Descendants(running["termd"].Cmd.Process.Pid)
		return errors.Is(err, proc.ErrUnsupported) || err == nil && !strings.Contains(wire.Describe(left), "sleep 1000")
	}) {
		t.Error("a terminal outlived its supervisor")
	}
}

// TestSidecar_CertificatesAreMadeAndRenewed: "acphost certs sidecar" makes all files that a sidecar and its supervisor
// need, and "certs renew" renews them. The sidecar is not restarted, and the supervisor reaches it with the new
// certificates.
func TestSidecar_CertificatesAreMadeAndRenewed(t *testing.T) {
	t.Parallel()
	p, daemons := e2e.NewPlace(t), e2e.NewPlace(t)
	keys := filepath.Join(daemons.Home, "fs keys")
	certs := func(args ...string) string {
		t.Helper()
		code, out, errs := daemons.Cli(t, append([]string{"certs"}, args...)...)
		if code != 0 {
			t.Fatalf("certs %q: status %d: %s", args, code, errs)
		}
		return out
	}
	certs("sidecar", "fs", keys)
	server, client := filepath.Join(keys, "sidecar"), filepath.Join(keys, "supervisor")
	_, address := daemons.SidecarKnownBy(t, "fsd", "--tls-ca", filepath.Join(server, "ca.crt"),
		"--tls-cert", filepath.Join(server, "server.crt"), "--tls-key", filepath.Join(server, "server.key"))
	p.File(t, "a.txt", "a\n")
	reads := func(dir string) error {
		s := p.Fixture(t, p.Config(t, fmt.Sprintf("handlers: {fs: {address: %q, tls: {ca: %q, cert: %q, key: %q}, agent_may_call: true}}\n", // the agent is this user
			address, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))))
		defer s.Finish()
		if e := s.Read("a.txt").Answer().Error; e != nil {
			return errors.New(e.Message)
		}
		return nil
	}
	if err := reads(client); err != nil {
		t.Fatal(err)
	}
	old := filepath.Join(daemons.Home, "old")
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

func TestSidecar_RequiresAuthentication(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	for _, args := range [][]string{
		{"--listen", "unix://" + filepath.Join(p.Home, "tmp", "x.sock")},
		{"--listen", "unix://" + filepath.Join(p.Home, "tmp", "x.sock"), "--allow-uid", fmt.Sprint(os.Getuid())},
		{"--listen", "tcp://127.0.0.1:0"},
		{"--listen", "tcp://127.0.0.1:0", "--allow-uid", "0"},
	} {
		out, err := wire.Command(t, e2e.Program("fsd"), args...).CombinedOutput()
		if err == nil {
			t.Errorf("fsd %q ended well", args)
		}
		if !strings.Contains(string(out), "--tls-cert") {
			t.Errorf("fsd %q printed %q", args, out)
		}
	}
}

// TestSidecar_RejectsAgentWithoutSecret has an agent of the sidecar's own user call Run with a forged context.
func TestSidecar_RejectsAgentWithoutSecret(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	_, address := p.Sidecar(t, "termd")
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	run := func(headers ...string) (*terminalv1.RunResponse, error) {
		return terminalv1.NewTerminalServiceClient(conn).Run(metadata.AppendToOutgoingContext(wire.Context(t), headers...), &terminalv1.RunRequest{
			Context: &acpv1.CallContext{
				SessionId: "s", Scope: strings.Repeat("0", 32), Agent: "a", ProtocolVersion: 1, Roots: []*acpv1.Root{{Path: p.Work}},
			},
			SessionId: "s", Command: "touch owned",
		})
	}
	if _, err := run(); status.Code(err) != codes.Unauthenticated {
		t.Errorf("without the secret: %v, want UNAUTHENTICATED", err)
	}
	if _, err := os.Stat(filepath.Join(p.Work, "owned")); err == nil {
		t.Error("the command ran")
	}
	secret := strings.TrimSpace(string(e2e.Must(t, p.Secret(t))))
	if res, err := run("authorization", "Bearer "+secret); err != nil || res.GetExitCode() != 0 {
		t.Errorf("with the secret: %v, %v", res, err)
	}
}

func TestSidecar_RejectsSecretThatAgentCanRead(t *testing.T) {
	t.Parallel()
	p, daemons := e2e.NewPlace(t), e2e.NewPlace(t)
	_, address := daemons.Sidecar(t, "termd")
	entry := fmt.Sprintf("handlers: {terminal: {address: %q, secret_file: %q}}\n", address, daemons.Secret(t))
	flags := p.Config(t, entry)
	for _, args := range [][]string{
		append(append([]string{"run"}, flags...), "--", e2e.Program("demoagent")), append([]string{"serve"}, flags...), append([]string{"config", "check"}, flags...),
	} {
		code, out, errs := p.Cli(t, args...)
		if code == 0 || !strings.Contains(out+errs, "an agent could read this secret") || !strings.Contains(out+errs, "agent_may_call") {
			t.Errorf("acphost %q: status %d\n%s%s", args, code, out, errs)
		}
	}
	if os.Getuid() != 0 {
		t.Skip("an agent of another user takes root")
	}
	// If agents run as another user, a terminal must act as that user, who could read its secret; a policy need not.
	flags = p.Config(t, "agent: {user: '65534'}\n"+entry)
	if code, out, errs := p.Cli(t, append([]string{"config", "check"}, flags...)...); code == 0 || !strings.Contains(out+errs, "read the sidecar's copy") {
		t.Errorf("a terminal that runs as the agents' user: status %d\n%s%s", code, out, errs)
	}
	_, address = daemons.Sidecar(t, "permd")
	flags = p.Config(t, fmt.Sprintf("agent: {user: '65534'}\npermission: {chain: [{address: %q, secret_file: %q}]}\n", address, daemons.Secret(t)))
	if code, out, errs := p.Cli(t, append([]string{"config", "check"}, flags...)...); code != 0 {
		t.Errorf("with agents of another user: status %d\n%s%s", code, out, errs)
	}
}
