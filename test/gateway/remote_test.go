package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/e2e"
)

// dialTLS connects with the keys in a folder; "": with none.
func dialTLS(t *testing.T, address, ca, dir string, options ...grpc.DialOption) e2e.Services {
	t.Helper()
	roots := x509.NewCertPool()
	pem, err := os.ReadFile(ca)
	if err != nil || !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("read %s: %v", ca, err)
	}
	cfg := &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13}
	if dir != "" {
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key"))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	return dialWith(t, address, credentials.NewTLS(cfg), options...)
}

func dialWith(t *testing.T, address string, c credentials.TransportCredentials, options ...grpc.DialOption) e2e.Services {
	t.Helper()
	conn, err := grpc.NewClient(address, append(options, grpc.WithTransportCredentials(c))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return e2e.Services{
		Agents: supervisorv1.NewAgentServiceClient(conn), Sessions: supervisorv1.NewSessionServiceClient(conn),
		Approvals: supervisorv1.NewApprovalServiceClient(conn), State: supervisorv1.NewSupervisorStateServiceClient(conn), Decided: supervisorv1.NewDecisionServiceClient(conn),
	}
}

// TestRemote_RejectsKeysThatAgentsCanRead: an agent that reads an operator's key could approve its own requests.
func TestRemote_RejectsKeysThatAgentsCanRead(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys, address := filepath.Join(p.Home, "keys"), testkit.FreePort(t)
	p.MakeKeys(t, keys)
	refused := func(why string, args ...string) {
		t.Helper()
		code, out, errs := p.Cli(t, append([]string{"serve", "--listen", address}, args...)...)
		if code == 0 || !strings.Contains(out+errs, why) {
			t.Errorf("acphost serve %q: status %d\n%s%s", args, code, out, errs)
		}
	}
	refused("the server's files are in "+filepath.Join(keys, "server"), "--tls-dir", keys)
	refused("an agent could read "+filepath.Join(keys, "approver", "client.key"), "--tls-dir", filepath.Join(keys, "server"))
	config := p.Config(t, fmt.Sprintf("admin: {listen: %q, tls: {ca: %[2]s/ca.crt, cert: %[2]s/server.crt, key: %[2]s/server.key}}\n", address, filepath.Join(keys, "server")))
	for _, command := range []string{"serve", "config check"} {
		code, out, errs := p.Cli(t, append(strings.Fields(command), config...)...)
		if code == 0 || !strings.Contains(out+errs, "agents_may_use_keys") {
			t.Errorf("acphost %s: status %d\n%s%s", command, code, out, errs)
		}
	}
	// The layout of older versions of acphost; and then without the clients, but with the key that can create more.
	for _, name := range []string{"server.crt", "server.key"} {
		if err := os.Rename(filepath.Join(keys, "server", name), filepath.Join(keys, name)); err != nil {
			t.Fatal(err)
		}
	}
	refused("an agent could read "+filepath.Join(keys, "approver", "client.key"), "--tls-dir", keys)
	away := filepath.Join(p.Home, "away")
	if err := os.Mkdir(away, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"viewer", "approver", "operator"} {
		if err := os.Rename(filepath.Join(keys, name), filepath.Join(away, name)); err != nil {
			t.Fatal(err)
		}
	}
	refused("an agent could read "+filepath.Join(keys, "ca.key"), "--tls-dir", keys)

	// With the flag that confirms the intention, the supervisor serves.
	s := p.Serve(t, []string{"--listen", address, "--tls-dir", keys, "--agents-may-use-keys"})
	c := dialTLS(t, address, filepath.Join(keys, "ca.crt"), filepath.Join(away, "viewer"))
	if !testkit.Poll(func() bool {
		_, err := c.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
		return err == nil
	}) {
		t.Error("nothing is served with --agents-may-use-keys")
	}
	s.Finish()
}

func TestRemote_RoleOfCertificateLimitsCalls(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys, address := filepath.Join(p.Home, "keys"), testkit.FreePort(t)
	p.MakeKeys(t, keys)
	s := p.Serve(t, []string{"--listen", address, "--tls-dir", p.Deploy(t, keys)})
	ca := filepath.Join(keys, "ca.crt")
	as := func(role string) e2e.Services { return dialTLS(t, address, ca, filepath.Join(keys, role)) }
	viewer, approver, operator := as("viewer"), as("approver"), as("operator")
	if !testkit.Poll(func() bool {
		_, err := viewer.Agents.ListAgents(s.Ctx, &supervisorv1.ListAgentsRequest{})
		return err == nil
	}) {
		t.Fatal("a viewer sees nothing")
	}
	for name, c := range map[string]e2e.Services{"with no certificate": dialTLS(t, address, ca, ""), "without TLS": dialWith(t, address, insecure.NewCredentials())} {
		ctx, cancel := context.WithTimeout(s.Ctx, testkit.Timeout())
		if _, err := c.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("a caller %s got %v, want no connection", name, err)
		}
		cancel()
	}

	req := p.Demo()
	for name, c := range map[string]e2e.Services{"viewer": viewer, "approver": approver} {
		if _, err := c.Agents.StartAgent(s.Ctx, req); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a %s that starts an agent got %v, want PERMISSION_DENIED", name, err)
		}
	}
	started, err := operator.Agents.StartAgent(s.Ctx, req)
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	opened, err := operator.Sessions.NewSession(s.Ctx, &supervisorv1.NewSessionRequest{AgentId: started.GetAgent().GetId(), Cwd: p.Work})
	if err != nil {
		t.Fatal(e2e.Explain(err))
	}
	changes, err := approver.Approvals.WatchApprovals(s.Ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	far := &e2e.Server{Process: s.Process, Place: p, Services: operator, T: t, Ctx: s.Ctx}
	turn := far.Prompt(opened.GetSession().GetSessionId(), "ask")
	q := turn.Question()
	if _, err := viewer.Approvals.AnswerApproval(s.Ctx, e2e.Yes(q, "me")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a viewer that answers got %v, want PERMISSION_DENIED", err)
	}
	answer, err := approver.Approvals.AnswerApproval(s.Ctx, e2e.Yes(q, "somebody else"))
	if err != nil || answer.GetAnswer().GetAnsweredBy() != "approver" {
		t.Errorf("an approver's answer is %v (%v), want it in the certificate's name", answer, err)
	}
	turn.Stopped("end_turn")
	s.Finish()
}

func TestRemote_ReloadsKeys(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys, others, address := filepath.Join(p.Home, "keys"), filepath.Join(p.Home, "others"), testkit.FreePort(t)
	for _, dir := range []string{keys, others} {
		p.MakeKeys(t, dir)
	}
	deployed := p.Deploy(t, keys)
	s := p.Serve(t, []string{"--listen", address, "--tls-dir", deployed})
	sees := func(dir string) error {
		c := dialTLS(t, address, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "viewer"))
		ctx, cancel := context.WithTimeout(s.Ctx, testkit.Scale(5*time.Second))
		defer cancel()
		_, err := c.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		return err
	}
	if !testkit.Poll(func() bool { return sees(keys) == nil }) {
		t.Fatal("a viewer sees nothing")
	}
	if sees(others) == nil {
		t.Error("a caller of another authority sees something")
	}
	for _, name := range []string{"ca.crt", "server.crt", "server.key"} {
		if err := os.Rename(filepath.Join(others, "server", name), filepath.Join(deployed, name)); err != nil {
			t.Fatal(err)
		}
	}
	if !testkit.Poll(func() bool { return sees(others) == nil }) {
		t.Errorf("the new keys do not count: %v", sees(others))
	}
	if sees(keys) == nil {
		t.Error("the old keys count still")
	}
	s.Finish()
}

// TestRemote_ConnectionFloodDoesNotBlockClients opens connections without a certificate that send nothing.
func TestRemote_ConnectionFloodDoesNotBlockClients(t *testing.T) {
	t.Parallel()
	p := e2e.NewPlace(t)
	keys, address := filepath.Join(p.Home, "keys"), testkit.FreePort(t)
	p.MakeKeys(t, keys)
	s := p.Serve(t, []string{"--listen", address, "--tls-dir", p.Deploy(t, keys)})
	for range 1500 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
	}
	for _, from := range []string{"127.0.0.2", "127.0.0.1"} {
		dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
		c := dialTLS(t, address, filepath.Join(keys, "viewer", "ca.crt"), filepath.Join(keys, "viewer"), grpc.WithContextDialer(func(ctx context.Context, to string) (net.Conn, error) {
			return dialer.DialContext(ctx, "tcp", to)
		}))
		begun := time.Now()
		ctx, cancel := context.WithTimeout(s.Ctx, testkit.Timeout())
		_, err := c.Agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		cancel()
		if took := time.Since(begun); err != nil || took > testkit.Scale(4*time.Second) { // less than a handshake may take
			t.Errorf("a caller at %s: %v after %v", from, err, took)
		}
	}
	s.Finish()
}
