package policytool_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// fake is a PolicyService that returns a test's answers, and records the requests.
type fake struct {
	permissionv1.UnimplementedPolicyServiceServer
	check    *permissionv1.CheckResponse
	explain  func(*permissionv1.ExplainRequest) (*permissionv1.ExplainResponse, error)
	imported *permissionv1.ImportResponse
	ready    []*permissionv1.ReadyPolicy

	importing *permissionv1.ImportRequest
}

func (f *fake) Check(context.Context, *permissionv1.CheckRequest) (*permissionv1.CheckResponse, error) {
	if f.check == nil {
		return nil, status.Error(codes.Internal, "no rules here")
	}
	return f.check, nil
}

func (f *fake) Explain(_ context.Context, req *permissionv1.ExplainRequest) (*permissionv1.ExplainResponse, error) {
	if f.explain == nil {
		return nil, status.Error(codes.InvalidArgument, "rules.yaml:3:1: no such effect")
	}
	return f.explain(req)
}

func (f *fake) Import(_ context.Context, req *permissionv1.ImportRequest) (*permissionv1.ImportResponse, error) {
	f.importing = req
	if f.imported == nil {
		return nil, status.Error(codes.InvalidArgument, "no format that is known")
	}
	return f.imported, nil
}

func (f *fake) ListReadyPolicies(
	context.Context, *permissionv1.ListReadyPoliciesRequest,
) (*permissionv1.ListReadyPoliciesResponse, error) {
	return &permissionv1.ListReadyPoliciesResponse{Policies: f.ready}, nil
}

// serve returns a client of the fake, over gRPC.
func serve(t *testing.T, f *fake) permissionv1.PolicyServiceClient {
	t.Helper()
	listener := bufconn.Listen(1 << 20)
	server := grpc.NewServer()
	permissionv1.RegisterPolicyServiceServer(server, f)
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:fake", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Stop()
		// A test that asks nothing may stop the server before it has begun.
		if err := <-done; err != nil && !errors.Is(err, grpc.ErrServerStopped) {
			t.Error(err)
		}
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return permissionv1.NewPolicyServiceClient(conn)
}

// indented is a value as commands print it as JSON.
func indented(t *testing.T, value any, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(value); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// golden compares what was printed with a file of testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	testkit.Golden(t, name+".golden", got)
	for i, line := range bytes.Split([]byte(got), []byte("\n")) {
		if strings.TrimRight(string(line), " ") != string(line) {
			t.Errorf("line %d has spaces at its end", i+1)
		}
	}
}

func put(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}
