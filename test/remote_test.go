package e2e_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/test/wire"
)

// freePort is a port of this machine that nobody has right now.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// dialTLS connects with the keys in a folder; "": with none.
func dialTLS(t *testing.T, address, ca, dir string) services {
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
	return dialWith(t, address, credentials.NewTLS(cfg))
}

func dialWith(t *testing.T, address string, c credentials.TransportCredentials) services {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(c))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return services{
		supervisorv1.NewAgentServiceClient(conn), supervisorv1.NewSessionServiceClient(conn),
		supervisorv1.NewApprovalServiceClient(conn), supervisorv1.NewSupervisorStateServiceClient(conn),
	}
}

func TestOverTheNetworkACertificatesRoleSaysWhatItMayDo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys, address := filepath.Join(p.home, "keys"), freePort(t)
	if status, out, errs := p.cli(t, "certs", "init", keys); status != 0 {
		t.Fatalf("acphost certs init: %s%s", out, errs)
	}
	s := p.serve(t, []string{"--listen", address, "--tls-dir", keys})
	ca := filepath.Join(keys, "ca.crt")
	as := func(role string) services { return dialTLS(t, address, ca, filepath.Join(keys, role)) }
	viewer, approver, operator := as("viewer"), as("approver"), as("operator")
	if !eventually(func() bool {
		_, err := viewer.agents.ListAgents(s.ctx, &supervisorv1.ListAgentsRequest{})
		return err == nil
	}) {
		t.Fatal("a viewer sees nothing")
	}
	for name, c := range map[string]services{"with no certificate": dialTLS(t, address, ca, ""), "without TLS": dialWith(t, address, insecure.NewCredentials())} {
		ctx, cancel := context.WithTimeout(s.ctx, 5*time.Second)
		if _, err := c.agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{}); status.Code(err) != codes.Unavailable {
			t.Errorf("a caller %s got %v, want no connection", name, err)
		}
		cancel()
	}

	req := p.demo()
	for name, c := range map[string]services{"viewer": viewer, "approver": approver} {
		if _, err := c.agents.StartAgent(s.ctx, req); status.Code(err) != codes.PermissionDenied {
			t.Errorf("a %s that starts an agent got %v, want PERMISSION_DENIED", name, err)
		}
	}
	started, err := operator.agents.StartAgent(s.ctx, req)
	if err != nil {
		t.Fatal(explain(err))
	}
	opened, err := operator.sessions.NewSession(s.ctx, &supervisorv1.NewSessionRequest{AgentId: started.GetAgent().GetId(), Cwd: p.work})
	if err != nil {
		t.Fatal(explain(err))
	}
	changes, err := approver.approvals.WatchApprovals(s.ctx, &supervisorv1.WatchApprovalsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := changes.Recv(); err != nil {
		t.Fatal(err)
	}
	far := &server{Process: s.Process, place: p, services: operator, t: t, ctx: s.ctx}
	turn := far.prompt(opened.GetSession().GetSessionId(), "ask")
	q := turn.question()
	if _, err := viewer.approvals.AnswerApproval(s.ctx, yes(q, "me")); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a viewer that answers got %v, want PERMISSION_DENIED", err)
	}
	answer, err := approver.approvals.AnswerApproval(s.ctx, yes(q, "somebody else"))
	if err != nil || answer.GetAnswer().GetAnsweredBy() != "approver" {
		t.Errorf("an approver's answer is %v (%v), want it in the certificate's name", answer, err)
	}
	turn.stopped("end_turn")
	s.finish()
}

func TestKeysThatAreReplacedCountForTheNextCaller(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	keys, others, address := filepath.Join(p.home, "keys"), filepath.Join(p.home, "others"), freePort(t)
	for _, dir := range []string{keys, others} {
		if status, out, errs := p.cli(t, "certs", "init", dir); status != 0 {
			t.Fatalf("acphost certs init: %s%s", out, errs)
		}
	}
	s := p.serve(t, []string{"--listen", address, "--tls-dir", keys})
	sees := func(dir string) error {
		c := dialTLS(t, address, filepath.Join(dir, "ca.crt"), filepath.Join(dir, "viewer"))
		ctx, cancel := context.WithTimeout(s.ctx, wire.Patience/6)
		defer cancel()
		_, err := c.agents.ListAgents(ctx, &supervisorv1.ListAgentsRequest{})
		return err
	}
	if !eventually(func() bool { return sees(keys) == nil }) {
		t.Fatal("a viewer sees nothing")
	}
	if sees(others) == nil {
		t.Error("a caller of another authority sees something")
	}
	before := filepath.Join(p.home, "before")
	if err := os.CopyFS(before, os.DirFS(keys)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ca.crt", "server.crt", "server.key"} {
		if err := os.Rename(filepath.Join(others, name), filepath.Join(keys, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(others, "ca.crt"), must(t, filepath.Join(keys, "ca.crt")), 0o600); err != nil {
		t.Fatal(err)
	}
	if !eventually(func() bool { return sees(others) == nil }) {
		t.Errorf("the new keys do not count: %v", sees(others))
	}
	if sees(before) == nil {
		t.Error("the old keys count still")
	}
	s.finish()
}

func must(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
