package admin_test

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/reflect/protoreflect"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
	"github.com/acphost/acphost/services/supervisor/internal/events/event"
)

// patient accepts every call, and watches until the call is cancelled. It records the callers and counts the events.
type patient struct {
	willing
	watching chan struct{}
	answered chan string
	received chan int
}

func newPatient() patient {
	return patient{watching: make(chan struct{}, 1000), answered: make(chan string, 10), received: make(chan int, 10)}
}

func (p patient) WatchEvents(ctx context.Context, _ string, _ int, _ func([]event.Encoded) error) error {
	p.watching <- struct{}{}
	<-ctx.Done()
	return ctx.Err()
}

func (p patient) ID(string) string { return "" }

func (p patient) AnswerApproval(_ context.Context, req *supervisorv1.AnswerApprovalRequest) (*supervisorv1.ApprovalAnswer, error) {
	p.answered <- req.GetAnsweredBy()
	return &supervisorv1.ApprovalAnswer{Id: req.GetId()}, nil
}

func (p patient) Prompt(_ context.Context, req *supervisorv1.PromptRequest, _ func(*supervisorv1.Event) error) error {
	p.received <- len(req.GetPrompt()[0].GetImage().GetData())
	return nil
}

// keysOf makes an authority in its own folder.
func keysOf(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "keys")
	if err := certs.Init(dir, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// network serves over TCP.
func network(t *testing.T, keys string, p patient) *admin.Server {
	t.Helper()
	return start(t, admin.Options{
		State: fake{}, Control: obedient{}, Agents: p, Sessions: p, Gateway: p, Events: p, Files: p, Approvals: p, Decisions: p,
		NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, certs.ServerDir)),
	})
}

// as connects as the client of a folder.
func as(t *testing.T, s *admin.Server, keys string) *client.Client {
	t.Helper()
	conn, err := client.DialTLS(s.Address(), keys)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// check calls what everybody may.
func check(t *testing.T, conn grpc.ClientConnInterface) error {
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	_, err := healthv1.NewHealthClient(conn).Check(ctx, &healthv1.HealthCheckRequest{})
	return err
}

func TestRoles_AllowedMethods(t *testing.T) {
	keys := keysOf(t)
	if err := certs.AddClient(keys, certs.Client{Name: "gateway", Role: certs.Gateway}, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	p := newPatient()
	p.willing = willing{}
	s := start(t, admin.Options{
		State: fake{}, Control: obedient{}, Agents: p, Sessions: p, Gateway: p, Events: willing{}, Files: p, Approvals: p, Decisions: p,
		NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, certs.ServerDir)),
	})
	for role, may := range map[string]func(m protoreflect.MethodDescriptor, verb bool) bool{
		"viewer": func(_ protoreflect.MethodDescriptor, verb bool) bool { return !verb },
		"approver": func(m protoreflect.MethodDescriptor, verb bool) bool {
			return !verb || m.Parent().Name() == "ApprovalService"
		},
		"gateway":  func(m protoreflect.MethodDescriptor, _ bool) bool { return m.Parent().Name() == "GatewayService" },
		"operator": func(protoreflect.MethodDescriptor, bool) bool { return true },
	} {
		calls := 0
		callAll(as(t, s, filepath.Join(keys, role)), func(m protoreflect.MethodDescriptor, verb bool, err error) {
			calls++
			if got := status.Code(err) != codes.PermissionDenied; got != may(m, verb) {
				t.Errorf("%s calls %s: %v, want %v (%v)", role, m.FullName(), got, may(m, verb), err)
			}
		})
		if calls < 37 {
			t.Errorf("%s made %d calls", role, calls)
		}
	}
}

func TestRoles_CertificateWithoutRoleIsRefused(t *testing.T) {
	keys := keysOf(t)
	s := network(t, keys, newPatient())
	conn := as(t, s, roleless(t, keys))
	callAll(conn, func(m protoreflect.MethodDescriptor, _ bool, err error) {
		if status.Code(err) != codes.PermissionDenied || !strings.Contains(err.Error(), "acphost:role:viewer") {
			t.Errorf("%s: %v, want PERMISSION_DENIED that states what is missing", m.FullName(), err)
		}
	})
	if err := check(t, conn); status.Code(err) != codes.PermissionDenied {
		t.Errorf("health: %v", err)
	}
}

// roleless makes a client's folder whose certificate is signed by the authority and contains no role.
func roleless(t *testing.T, keys string) (dir string) {
	t.Helper()
	block := func(name string) []byte {
		data, err := os.ReadFile(filepath.Join(keys, name))
		if err != nil {
			t.Fatal(err)
		}
		b, _ := pem.Decode(data)
		return b.Bytes
	}
	ca, err := x509.ParseCertificate(block(certs.CAFile))
	if err != nil {
		t.Fatal(err)
	}
	caKey, err := x509.ParsePKCS8PrivateKey(block(certs.CAKeyFile))
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "operator"}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	files := certs.ClientFiles(t.TempDir())
	if err := errors.Join(
		os.WriteFile(files.CA, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw}), 0o600),
		os.WriteFile(files.Cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600),
		os.WriteFile(files.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600),
	); err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(files.CA)
}

func TestTCP_CertificateNamesAnswerer(t *testing.T) {
	keys, p := keysOf(t), newPatient()
	s := network(t, keys, p)
	_, err := supervisorv1.NewApprovalServiceClient(as(t, s, filepath.Join(keys, "approver"))).AnswerApproval(t.Context(), &supervisorv1.AnswerApprovalRequest{
		Id: "x", Answer: &supervisorv1.AnswerApprovalRequest_Cancel{Cancel: true}, AnsweredBy: "policy",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := <-p.answered; got != "approver" {
		t.Errorf("answered by %q, want the certificate's name", got)
	}
}

func TestPrompt_AcceptsImages(t *testing.T) {
	keys, p := keysOf(t), newPatient()
	s := network(t, keys, p)
	inside, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	const size = 20 << 20
	req := &supervisorv1.PromptRequest{SessionId: "s", Prompt: []*supervisorv1.ContentBlock{{Content: &supervisorv1.ContentBlock_Image{
		Image: &supervisorv1.ImageContent{MimeType: "image/png", Data: bytes.Repeat([]byte("x"), size)},
	}}}}
	for name, conn := range map[string]grpc.ClientConnInterface{"an operator": as(t, s, filepath.Join(keys, "operator")), "this process": inside} {
		stream, err := supervisorv1.NewSessionServiceClient(conn).Prompt(t.Context(), req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := <-p.received; got != size {
			t.Errorf("%s: %d bytes arrived, want %d", name, got, size)
		}
	}
}

func TestUntrustedCaller_CannotUseMuchMemory(t *testing.T) {
	keys, p := keysOf(t), newPatient()
	s := network(t, keys, p)
	viewer, operator := filepath.Join(keys, "viewer"), as(t, s, filepath.Join(keys, "operator"))

	_, err := supervisorv1.NewSupervisorStateServiceClient(as(t, s, viewer)).GetSession(t.Context(), &supervisorv1.GetSessionRequest{SessionId: strings.Repeat("x", 65<<10)})
	if status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a long request: %v, want RESOURCE_EXHAUSTED", err)
	}

	// One untrusted caller makes as many calls as it may have, then one more. A second untrusted caller has room, and a
	// third has not.
	if err := certs.AddClient(keys, certs.Client{Name: "other", Role: certs.Viewer}, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	if err := certs.AddClient(keys, certs.Client{Name: "third", Role: certs.Viewer}, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	other, third := filepath.Join(keys, "other"), filepath.Join(keys, "third")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	watch := func(client string) (last *client.Client) {
		for i := range 64 {
			if i%30 == 0 { // of one connection's 32
				last = as(t, s, client)
			}
			if _, err := supervisorv1.NewSupervisorStateServiceClient(last).WatchEvents(ctx, &supervisorv1.WatchEventsRequest{}); err != nil {
				t.Fatal(err)
			}
			<-p.watching
		}
		return last
	}
	last := watch(viewer)
	if err := check(t, last); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("one call too many: %v, want RESOURCE_EXHAUSTED", err)
	}
	if err := check(t, as(t, s, other)); err != nil {
		t.Errorf("another untrusted caller meanwhile: %v", err)
	}
	watch(other)
	if err := check(t, as(t, s, third)); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a call too many of all: %v, want RESOURCE_EXHAUSTED", err)
	}
	if err := check(t, operator); err != nil {
		t.Errorf("an operator meanwhile: %v", err)
	}
	cancel()
	testkit.Eventually(t, "untrusted callers can call again", func() bool { return check(t, last) == nil })

	// As many connections as one untrusted caller may have, then one more; others have room.
	for range 32 {
		_ = check(t, as(t, s, viewer)) // some are turned away already: there are connections from before
	}
	testkit.Eventually(t, "an untrusted caller's connection too many is turned away", func() bool {
		conn := as(t, s, viewer)
		defer conn.Close()
		return status.Code(check(t, conn)) == codes.Unavailable
	})
	for _, client := range []string{third, filepath.Join(keys, "operator")} {
		if err := check(t, as(t, s, client)); err != nil {
			t.Errorf("%s meanwhile: %v", filepath.Base(client), err)
		}
	}
}

func TestTCP_SilentConnectionsBlockNoOthers(t *testing.T) {
	keys := keysOf(t)
	s := network(t, keys, newPatient())
	var silent []net.Conn
	for range 100 {
		conn, err := net.Dial("tcp", s.Address())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		silent = append(silent, conn)
	}
	if err := check(t, as(t, s, filepath.Join(keys, "viewer"))); err != nil {
		t.Errorf("another: %v", err)
	}
	begun := time.Now()
	s.Stop()
	if took := time.Since(begun); took > testkit.Scale(3*time.Second) {
		t.Errorf("Stop waited for %v", took)
	}
	for _, conn := range silent {
		if _, err := conn.Read(make([]byte, 1)); err == nil {
			t.Error("one that never spoke is still connected")
		}
	}
}

func TestTCP_RequiresCertificate(t *testing.T) {
	s := network(t, keysOf(t), newPatient())
	plain, err := grpc.NewClient("passthrough:///"+s.Address(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	if err := check(t, plain); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v, want UNAVAILABLE", err)
	}
	if err := check(t, as(t, s, filepath.Join(keysOf(t), "operator"))); status.Code(err) != codes.Unavailable {
		t.Errorf("of another authority: %v, want UNAVAILABLE", err)
	}
}

func TestTCP_ReloadsKeysAndKeepsConnections(t *testing.T) {
	first, second := keysOf(t), keysOf(t)
	live := filepath.Join(t.TempDir(), "live")
	swap := func(to string) {
		if err := errors.Join(os.Symlink(to, live+".new"), os.Rename(live+".new", live)); err != nil {
			t.Fatal(err)
		}
	}
	swap(first)
	p := newPatient()
	s := network(t, live, p)
	old := as(t, s, filepath.Join(first, "viewer"))
	watch, err := supervisorv1.NewSupervisorStateServiceClient(old).WatchEvents(t.Context(), &supervisorv1.WatchEventsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	<-p.watching

	// Under load: callers of both authorities connect all the time, and each is accepted while its authority's keys
	// exist.
	stop := make(chan struct{})
	var callers sync.WaitGroup
	for _, keys := range []string{first, second} {
		callers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				conn, err := client.DialTLS(s.Address(), filepath.Join(keys, "operator"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := check(t, conn); err != nil && status.Code(err) != codes.Unavailable {
					t.Error(err)
				}
				_ = conn.Close()
			}
		})
	}
	for _, now := range []string{second, first, second, first, second} {
		other := first
		if now == first {
			other = second
		}
		swap(now)
		if err := check(t, as(t, s, filepath.Join(now, "viewer"))); err != nil {
			t.Errorf("with the keys that are there: %v", err)
		}
		if err := check(t, as(t, s, filepath.Join(other, "viewer"))); status.Code(err) != codes.Unavailable {
			t.Errorf("with those that are not: %v", err)
		}
		if err := check(t, old); err != nil {
			t.Errorf("on a connection that was there: %v", err)
		}
	}
	close(stop)
	callers.Wait()
	s.Stop()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable || !strings.Contains(err.Error(), "stopping") {
		t.Errorf("the stream ended with %v, want that the supervisor stops", err)
	}
}

func TestStart_RejectsInvalidKeys(t *testing.T) {
	for name, c := range map[string]struct {
		options func(t *testing.T) admin.Options
		want    string
	}{
		"no keys": {func(*testing.T) admin.Options { return admin.Options{Listen: "127.0.0.1:0"} }, "all three files are needed"},
		"keys that others can read": {func(t *testing.T) admin.Options {
			f := certs.ServerFiles(filepath.Join(keysOf(t), certs.ServerDir))
			if err := os.Chmod(f.Key, 0o640); err != nil {
				t.Fatal(err)
			}
			return admin.Options{Listen: "127.0.0.1:0", TLS: f}
		}, "chmod 0600"},
		"an address that is taken": {func(t *testing.T) admin.Options {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = l.Close() })
			return admin.Options{Listen: l.Addr().String(), TLS: certs.ServerFiles(filepath.Join(keysOf(t), certs.ServerDir))}
		}, "address already in use"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := testkit.ShortDir(t)
			o := c.options(t)
			o.State, o.Env = fake{}, runtimeDir(dir)
			s, err := admin.Start(o)
			if err == nil {
				s.Stop()
				t.Fatal("it was served, want an error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
			if left, _ := filepath.Glob(filepath.Join(dir, "acphost", "*")); left != nil {
				t.Errorf("sockets are left: %q", left)
			}
		})
	}
}

func TestLocal_ServesWithoutSocket(t *testing.T) {
	dir := testkit.ShortDir(t)
	s := start(t, admin.Options{State: fake{pid: 5}, Agents: willing{}, NoSocket: true, Env: runtimeDir(dir)})
	if s.Path() != "" || s.Address() != "" {
		t.Errorf("it is served at %q, %q", s.Path(), s.Address())
	}
	if found, _ := os.ReadDir(dir); len(found) != 0 {
		t.Errorf("there is %v", found)
	}
	conn, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	st, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(t.Context(), &supervisorv1.GetStatusRequest{})
	if err != nil || st.GetPid() != 5 {
		t.Errorf("the status is %v, %v", st, err)
	}
	s.Stop()
	if _, err := supervisorv1.NewAgentServiceClient(conn).ListAgents(t.Context(), &supervisorv1.ListAgentsRequest{}); err == nil {
		t.Error("a server that was stopped answers")
	}
}

func TestServer_MissingServicesAreUnimplemented(t *testing.T) {
	s := start(t, admin.Options{Events: newPatient(), NoSocket: true})
	conn, err := s.Local()
	if err != nil {
		t.Fatal(err)
	}
	_, agents := supervisorv1.NewAgentServiceClient(conn).ListAgents(t.Context(), &supervisorv1.ListAgentsRequest{})
	_, sessions := supervisorv1.NewSessionServiceClient(conn).CloseSession(t.Context(), &supervisorv1.CloseSessionRequest{SessionId: "s"})
	_, approvals := supervisorv1.NewApprovalServiceClient(conn).ListApprovals(t.Context(), &supervisorv1.ListApprovalsRequest{})
	for name, err := range map[string]error{"agents": agents, "sessions": sessions, "approvals": approvals} {
		if status.Code(err) != codes.Unimplemented {
			t.Errorf("%s: %v, want UNIMPLEMENTED", name, err)
		}
	}
}

// scraping reads the metrics as Prometheus does: by HTTP/2 with a client's certificate.
func scraping(t *testing.T, s *admin.Server, keys string) (int, string, error) {
	t.Helper()
	files := certs.ClientFiles(keys)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	if pem, err := os.ReadFile(files.CA); err != nil || !pool.AppendCertsFromPEM(pem) {
		t.Fatal("the authority's certificate cannot be read", err)
	}
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13}}
	defer transport.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.Address()+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return 0, "", err
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, string(body), err
}

func TestMetrics_NeedMetricsRole(t *testing.T) {
	keys := keysOf(t)
	if err := certs.AddClient(keys, certs.Client{Name: "prometheus", Role: certs.Metrics}, certs.Options{}); err != nil {
		t.Fatal(err)
	}
	o := admin.Options{
		State: fake{}, Control: obedient{}, NoSocket: true, Listen: "127.0.0.1:0", TLS: certs.ServerFiles(filepath.Join(keys, certs.ServerDir)),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "measured 1\n") }),
	}
	s := start(t, o)
	if code, body, err := scraping(t, s, filepath.Join(keys, "prometheus")); code != http.StatusOK || body != "measured 1\n" || err != nil {
		t.Errorf("metrics: got %d, %q, %v", code, body, err)
	}
	for _, role := range []string{"viewer", "operator"} {
		if code, body, err := scraping(t, s, filepath.Join(keys, role)); err == nil && (code == http.StatusOK || strings.Contains(body, "measured")) {
			t.Errorf("%s: got %d, %q", role, code, body)
		}
	}
	conn := as(t, s, filepath.Join(keys, "prometheus"))
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Timeout())
	defer cancel()
	if err := check(t, conn); err == nil {
		t.Error("a caller with the metrics role gets gRPC's health")
	}
	if _, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(ctx, &supervisorv1.GetStatusRequest{}); err == nil {
		t.Error("a caller with the metrics role sees the state")
	}
	if _, err := supervisorv1.NewSupervisorControlServiceClient(conn).ReloadPolicy(ctx, &supervisorv1.ReloadPolicyRequest{}); err == nil {
		t.Error("a caller with the metrics role changes something")
	}

	o.Metrics = nil
	if code, body, err := scraping(t, start(t, o), filepath.Join(keys, "prometheus")); err == nil {
		t.Errorf("metrics that are off: got %d, %q", code, body)
	}
}
