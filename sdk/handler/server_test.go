package handler

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/types/known/structpb"

	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
)

func TestMain(m *testing.M) {
	if os.Getenv(asChild) != "" {
		Main(minimal())
	}
	goleak.VerifyTestMain(m)
}

// terminals is a domain service whose calls are functions of the test.
type terminals struct {
	terminalv1.UnimplementedTerminalServiceServer
	kill func(context.Context) error
	wait func(context.Context) error
}

func (s terminals) Kill(ctx context.Context, _ *terminalv1.KillRequest) (*terminalv1.KillResponse, error) {
	return &terminalv1.KillResponse{}, s.kill(ctx)
}

func (s terminals) WaitForExit(
	ctx context.Context, _ *terminalv1.WaitForExitRequest,
) (*terminalv1.WaitForExitResponse, error) {
	return &terminalv1.WaitForExitResponse{}, s.wait(ctx)
}

func minimal() Handler {
	return Handler{
		Name: "test", Version: "1.0", Register: func(grpc.ServiceRegistrar) {},
		Logger: slog.New(slog.DiscardHandler),
	}
}

// serve serves h in memory until the test ends.
func serve(t *testing.T, h Handler) (*Server, *grpc.ClientConn) {
	t.Helper()
	s, err := NewServer(h)
	if err != nil {
		t.Fatal(err)
	}
	l := bufconn.Listen(1 << 16)
	served := make(chan error, 1)
	go func() { served <- s.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:///memory", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		now, cancel := context.WithCancel(context.Background())
		cancel()
		s.Stop(now)
		if err := <-served; err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	return s, conn
}

func TestServer_HasDescriptionHealthAndReflection(t *testing.T) {
	h := minimal()
	h.Register = func(s grpc.ServiceRegistrar) {
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Service"}, nil)
	}
	h.RegisterUnlisted = func(s grpc.ServiceRegistrar) {
		s.RegisterService(&grpc.ServiceDesc{ServiceName: "test.Unlisted"}, nil)
	}
	h.DescriptorSet = []byte("set")
	h.MaxMessageBytes = 1 << 20
	h.CapabilityMeta = map[string]any{"acme.com/x": true}
	_, conn := serve(t, h)
	d, err := pluginv1.NewPluginServiceClient(conn).Describe(t.Context(), &pluginv1.DescribeRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if d.GetName() != "test" || d.GetVersion() != "1.0" || string(d.GetDescriptorSet()) != "set" ||
		d.GetMaxMessageBytes() != 1<<20 || !d.GetCapabilityMeta().GetFields()["acme.com/x"].GetBoolValue() ||
		len(d.GetServices()) != 1 || d.GetServices()[0] != "test.Service" {
		t.Errorf("Describe = %v", d)
	}
	for _, name := range []string{"", "plugin", "test.Service"} {
		answer, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(),
			&grpc_health_v1.HealthCheckRequest{Service: name})
		if err != nil || answer.GetStatus() != grpc_health_v1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", name, answer, err)
		}
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err == nil {
		err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
			MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_ListServices{},
		})
	}
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Errorf("reflection: %v", err)
	}
}

func TestServer_RejectsIncompleteHandler(t *testing.T) {
	for want, change := range map[string]func(*Handler){
		"Name":           func(h *Handler) { h.Name = strings.Repeat("x", 65) },
		"Version":        func(h *Handler) { h.Version = "" },
		"Register":       func(h *Handler) { h.Register = nil },
		"CapabilityMeta": func(h *Handler) { h.CapabilityMeta = map[string]any{"x": make(chan int)} },
	} {
		h := minimal()
		change(&h)
		if _, err := NewServer(h); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error = %v, want one about %s", err, want)
		}
	}
}

func TestConfigure_CallsDoNotOverlap(t *testing.T) {
	var inside, calls atomic.Int32
	h := minimal()
	h.Configure = func(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
		if inside.Add(1) != 1 {
			t.Error("two calls at once")
		}
		defer inside.Add(-1)
		calls.Add(1)
		if req.GetHost().GetInstance() != "i" {
			t.Errorf("request = %v", req)
		}
		return []string{"noted"}, nil
	}
	_, conn := serve(t, h)
	client := pluginv1.NewPluginServiceClient(conn)
	failed := make(chan error, 20)
	for range cap(failed) {
		go func() {
			answer, err := client.Configure(context.Background(),
				&pluginv1.ConfigureRequest{Host: &pluginv1.Host{Instance: "i"}})
			if err == nil && (len(answer.GetNotes()) != 1 || answer.GetNotes()[0] != "noted") {
				err = errors.New(answer.String())
			}
			failed <- err
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if calls.Load() != 20 {
		t.Errorf("%d calls reached the handler, want 20", calls.Load())
	}
}

func TestConfigure_ReturnsErrorToCaller(t *testing.T) {
	settings, _ := structpb.NewStruct(map[string]any{"size": 1})
	req := &pluginv1.ConfigureRequest{Settings: settings}
	for name, c := range map[string]struct {
		configure func() error
		code      codes.Code
		message   string
	}{
		"a plain error":   {func() error { return errors.New("size: too small") }, codes.InvalidArgument, "size: too small"},
		"a status":        {func() error { return status.Error(codes.FailedPrecondition, "busy") }, codes.FailedPrecondition, "busy"},
		"a panic":         {func() error { panic("secret") }, codes.Internal, "panic in /acphost.plugin.v1.PluginService/Configure"},
		"nothing to call": {nil, codes.InvalidArgument, "size: test has no settings"},
	} {
		t.Run(name, func(t *testing.T) {
			h := minimal()
			if c.configure != nil {
				h.Configure = func(context.Context, *pluginv1.ConfigureRequest) ([]string, error) { return nil, c.configure() }
			}
			_, conn := serve(t, h)
			_, err := pluginv1.NewPluginServiceClient(conn).Configure(t.Context(), req)
			if status.Code(err) != c.code || !strings.Contains(err.Error(), c.message) || strings.Contains(err.Error(), "secret") {
				t.Errorf("error = %v, want %s %q", err, c.code, c.message)
			}
		})
	}
}

func TestHold_RejectsInvalidScope(t *testing.T) {
	_, conn := serve(t, minimal())
	client := pluginv1.NewPluginServiceClient(conn)
	stream, err := client.Hold(t.Context(), &pluginv1.HoldRequest{Scope: scope})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatalf("Hold: %v", err)
	}
	for _, bad := range []string{"", "x", strings.ToUpper(scope), scope + "0", strings.Repeat("g", 32)} {
		stream, err := client.Hold(t.Context(), &pluginv1.HoldRequest{Scope: bad})
		if err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("Hold(%q): %v", bad, err)
		}
	}
}

func TestHoldAll_RejectsInvalidScope(t *testing.T) {
	released := make(chan string, 1)
	h := minimal()
	h.Release = func(scope string) { released <- scope }
	_, conn := serve(t, h)
	client := pluginv1.NewPluginServiceClient(conn)
	stream, err := client.HoldAll(t.Context())
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatalf("HoldAll: %v", err)
	}
	if err := stream.Send(&pluginv1.HoldAllRequest{Scope: scope}); err != nil {
		t.Fatal(err)
	}
	for len(released) == 0 { // there is something to release once it is held
		if _, err := client.Release(t.Context(), &pluginv1.ReleaseRequest{Scope: scope}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-released; got != scope {
		t.Errorf("released %q", got)
	}
	if err := stream.Send(&pluginv1.HoldAllRequest{Scope: "x"}); err != nil {
		t.Fatal(err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.InvalidArgument {
		t.Errorf("error = %v", err)
	}
	stream, err = client.HoldAll(t.Context())
	if err == nil {
		err = stream.CloseSend()
	}
	for err == nil {
		_, err = stream.Recv()
	}
	if !errors.Is(err, io.EOF) {
		t.Errorf("error = %v, want the end, since the caller ended it", err)
	}
}

func TestPanics_AreLoggedAndNotSentToCaller(t *testing.T) {
	var log bytes.Buffer
	h := minimal()
	h.Logger = slog.New(slog.NewTextHandler(&log, nil))
	h.Register = func(s grpc.ServiceRegistrar) {
		terminalv1.RegisterTerminalServiceServer(s, terminals{kill: func(context.Context) error { panic("the password is x") }})
	}
	_, conn := serve(t, h)
	_, err := terminalv1.NewTerminalServiceClient(conn).Kill(t.Context(), &terminalv1.KillRequest{})
	if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "password") {
		t.Errorf("error = %v", err)
	}
	if !strings.Contains(log.String(), "server_test.go") || !strings.Contains(log.String(), "TerminalService/Kill") {
		t.Errorf("log = %s", log.String())
	}
}

func TestPanics_LeaveTheHandlerServing(t *testing.T) {
	h := minimal()
	h.Register = func(s grpc.ServiceRegistrar) {
		first := true
		terminalv1.RegisterTerminalServiceServer(s, terminals{kill: func(context.Context) error {
			if first {
				first = false
				panic("injected")
			}
			return nil
		}})
	}
	_, conn := serve(t, h)
	client := terminalv1.NewTerminalServiceClient(conn)
	if _, err := client.Kill(t.Context(), &terminalv1.KillRequest{}); status.Code(err) != codes.Internal {
		t.Errorf("the call that panics: got %v, want INTERNAL", err)
	}
	if _, err := client.Kill(t.Context(), &terminalv1.KillRequest{}); err != nil {
		t.Errorf("the next call: %v", err)
	}
}

func TestStop_FinishesCallsThatDoNotWait(t *testing.T) {
	began, finish := make(chan string, 1<<10), make(chan struct{})
	var closed atomic.Bool
	h := minimal()
	h.Close = func() { closed.Store(true) }
	h.Register = func(s grpc.ServiceRegistrar) {
		terminalv1.RegisterTerminalServiceServer(s, terminals{
			kill: func(context.Context) error {
				began <- "kill"
				<-finish
				return nil
			},
			wait: func(ctx context.Context) error {
				began <- "wait"
				<-ctx.Done()
				return ctx.Err()
			},
		})
	}
	s, conn := serve(t, h)
	client := terminalv1.NewTerminalServiceClient(conn)
	stream, err := pluginv1.NewPluginServiceClient(conn).Hold(t.Context(), &pluginv1.HoldRequest{Scope: scope})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	killed, waited, stopped := make(chan error, 1), make(chan error, 1), make(chan struct{})
	go func() {
		_, err := client.Kill(context.Background(), &terminalv1.KillRequest{})
		killed <- err
	}()
	go func() {
		_, err := client.WaitForExit(context.Background(), &terminalv1.WaitForExitRequest{})
		waited <- err
	}()
	<-began
	<-began
	go func() {
		s.Stop(context.Background())
		close(stopped)
	}()
	// From the moment on when the drain begins, calls are refused.
	for {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		_, err := client.Kill(ctx, &terminalv1.KillRequest{})
		cancel()
		if status.Code(err) == codes.Unavailable {
			break
		}
	}
	select {
	case <-stopped:
		t.Error("stopped before the call in flight had finished")
	default:
	}
	close(finish)
	if err := <-killed; err != nil {
		t.Errorf("the call in flight: %v", err)
	}
	if err := <-waited; status.Code(err) != codes.Unavailable {
		t.Errorf("the call that waits: %v, want UNAVAILABLE", err)
	}
	if _, err := stream.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("the hold: %v, want UNAVAILABLE", err)
	}
	<-stopped
	if !closed.Load() {
		t.Error("Close was not called")
	}
}

func TestConfigure_SidecarOnlyValidates(t *testing.T) {
	var got *pluginv1.ConfigureRequest
	h := minimal()
	h.Configure = func(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
		got = req
		return nil, nil
	}
	c, err := newCore(h, true)
	if err != nil {
		t.Fatal(err)
	}
	settings, _ := structpb.NewStruct(map[string]any{"size": 1})
	answer, err := c.self.Configure(t.Context(), &pluginv1.ConfigureRequest{
		Settings: settings, Host: &pluginv1.Host{ProtectedPaths: []string{"/x"}, Environment: []string{"A=b"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !got.GetValidateOnly() || got.GetHost() != nil || len(got.GetSettings().GetFields()) != 1 {
		t.Errorf("the handler was given %v", got)
	}
	if len(answer.GetNotes()) != 2 {
		t.Errorf("notes = %q, want one on the settings and one on the paths", answer.GetNotes())
	}
}

func TestSidecar_UsesOwnSettingsFile(t *testing.T) {
	t.Setenv("OF_THE_SIDECAR", "yes")
	dir := t.TempDir()
	file, secret := filepath.Join(dir, "settings.yaml"), filepath.Join(dir, "secret")
	if err := os.WriteFile(file, []byte("max_bytes: 12\nroots: [{path: /x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var got *pluginv1.ConfigureRequest
	h := minimal()
	h.Configure = func(_ context.Context, req *pluginv1.ConfigureRequest) ([]string, error) {
		got = req
		return nil, nil
	}
	c, err := newCore(h, true)
	if err != nil {
		t.Fatal(err)
	}
	o := parseArgs([]string{"--listen", "unix:///run/x", "--secret-file", secret, "--settings", file})
	if o.err != nil {
		t.Fatal(o.err)
	}
	if _, err := c.ownSettings(o)(t.Context()); err != nil {
		t.Fatal(err)
	}
	fields := got.GetSettings().GetFields()
	if got.GetValidateOnly() || fields["max_bytes"].GetNumberValue() != 12 ||
		fields["roots"].GetListValue().GetValues()[0].GetStructValue().GetFields()["path"].GetStringValue() != "/x" {
		t.Errorf("settings = %v", got)
	}
	if host := strings.Join(got.GetHost().GetEnvironment(), "\n"); !strings.Contains(host, "OF_THE_SIDECAR=yes") {
		t.Errorf("environment = %s", host)
	}
	if paths := got.GetHost().GetProtectedPaths(); !slices.Equal(paths, []string{file, secret, "/run/x"}) {
		t.Errorf("protected paths = %v", paths)
	}
	if err := os.WriteFile(file, []byte("a: [\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.ownSettings(o)(t.Context()); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a broken file: %v", err)
	}
}

func TestAround_WrapsCallsThatDoNotWait(t *testing.T) {
	h := minimal()
	var begun, ended atomic.Int32
	h.Around = func(call func()) {
		begun.Add(1)
		defer ended.Add(1)
		call()
	}
	h.Register = func(s grpc.ServiceRegistrar) {
		terminalv1.RegisterTerminalServiceServer(s, terminals{
			kill: func(context.Context) error { return nil },
			wait: func(context.Context) error { return nil },
		})
	}
	_, conn := serve(t, h)
	client := terminalv1.NewTerminalServiceClient(conn)
	if _, err := client.Kill(t.Context(), &terminalv1.KillRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.WaitForExit(t.Context(), &terminalv1.WaitForExitRequest{}); err != nil {
		t.Fatal(err)
	}
	if begun.Load() != 1 || ended.Load() != 1 {
		t.Errorf("it stood around %d calls, and %d ended; want 1", begun.Load(), ended.Load())
	}
}
