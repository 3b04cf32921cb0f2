package services_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"go.uber.org/goleak"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"github.com/acphost/acphost/internal/delegation"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/services"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// supervisor returns the answers that a test sets, and records in whose name it was called.
type supervisor struct {
	supervisorv1.UnimplementedSupervisorStateServiceServer
	supervisorv1.UnimplementedSessionServiceServer
	supervisorv1.UnimplementedApprovalServiceServer
	supervisorv1.UnimplementedAgentServiceServer
	callers chan delegation.Caller
	ended   chan error
	watch   func(stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error
	reached atomic.Int64
}

func (s *supervisor) note(ctx context.Context) {
	s.reached.Add(1)
	md, _ := metadata.FromIncomingContext(ctx)
	c, _, err := delegation.Read(md)
	if err != nil {
		c.Name = err.Error()
	}
	s.callers <- c
}

func (s *supervisor) GetSession(ctx context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	s.note(ctx)
	switch req.GetSessionId() {
	case "none":
		st, _ := status.New(codes.NotFound, "there is no such session").WithDetails(&errdetails.ErrorInfo{Reason: "GONE"})
		return nil, st.Err()
	case "slow":
		<-ctx.Done()
		s.ended <- ctx.Err()
		return nil, ctx.Err()
	}
	return &supervisorv1.GetSessionResponse{Session: &supervisorv1.Session{SessionId: req.GetSessionId()}}, nil
}

func (s *supervisor) WatchSession(_ *supervisorv1.WatchSessionRequest, stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
	s.note(stream.Context())
	return s.watch(stream)
}

// rig is a gateway's services over HTTP, before a supervisor that a test plays.
type rig struct {
	*supervisor
	handler *services.Handler
	url     string
	revoked atomic.Bool
	stop    func() // the supervisor
}

func newRig(t *testing.T, role string) *rig {
	t.Helper()
	r := &rig{supervisor: &supervisor{callers: make(chan delegation.Caller, 1000), ended: make(chan error, 10)}}
	server := grpc.NewServer(grpc.WaitForHandlers(true))
	supervisorv1.RegisterSupervisorStateServiceServer(server, r.supervisor)
	supervisorv1.RegisterSessionServiceServer(server, r.supervisor)
	supervisorv1.RegisterApprovalServiceServer(server, r.supervisor)
	supervisorv1.RegisterAgentServiceServer(server, r.supervisor)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.stop = server.Stop
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	conn, err := grpc.NewClient("passthrough:///"+listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	if r.handler, err = services.New(conn, slog.New(slog.DiscardHandler)); err != nil {
		t.Fatal(err)
	}
	caller := auth.Caller{ID: "token 0123", Name: "Łucja of the build", Role: role, Valid: func() bool { return !r.revoked.Load() }}
	h := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.handler.ServeHTTP(w, req.WithContext(auth.With(req.Context(), caller)))
	}))
	h.Config.Protocols = &http.Protocols{}
	h.Config.Protocols.SetHTTP1(true)
	h.Config.Protocols.SetUnencryptedHTTP2(true)
	h.Start()
	r.url = h.URL
	t.Cleanup(func() {
		r.handler.Close()
		h.CloseClientConnections()
		h.Close()
		_ = conn.Close()
		server.Stop()
		<-served
	})
	return r
}

// way is a protocol of a client, over a version of HTTP.
type way struct {
	http    *http.Client
	options []connect.ClientOption
}

func ways(t *testing.T) map[string]way {
	t.Helper()
	client := func(h2 bool) *http.Client {
		transport := &http.Transport{Protocols: &http.Protocols{}}
		transport.Protocols.SetHTTP1(!h2)
		transport.Protocols.SetUnencryptedHTTP2(h2)
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport}
	}
	all := map[string]way{"gRPC": {client(true), []connect.ClientOption{connect.WithGRPC()}}}
	for name, h2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		c := client(h2)
		all["Connect over "+name] = way{c, nil}
		all["Connect in JSON over "+name] = way{c, []connect.ClientOption{connect.WithProtoJSON()}}
		all["gRPC-Web over "+name] = way{c, []connect.ClientOption{connect.WithGRPCWeb()}}
		all["gRPC-Web in JSON over "+name] = way{c, []connect.ClientOption{connect.WithGRPCWeb(), connect.WithProtoJSON()}}
	}
	return all
}

func get(ctx context.Context, r *rig, w way, session string) (*supervisorv1.GetSessionResponse, error) {
	c := connect.NewClient[supervisorv1.GetSessionRequest, supervisorv1.GetSessionResponse](w.http, r.url+supervisorv1.SupervisorStateService_GetSession_FullMethodName, w.options...)
	res, err := c.CallUnary(ctx, connect.NewRequest(&supervisorv1.GetSessionRequest{SessionId: session}))
	if err != nil {
		return nil, err
	}
	return res.Msg, nil
}

func watch(ctx context.Context, r *rig, w way) (*connect.ServerStreamForClient[supervisorv1.WatchSessionResponse], error) {
	c := connect.NewClient[supervisorv1.WatchSessionRequest, supervisorv1.WatchSessionResponse](w.http, r.url+supervisorv1.SessionService_WatchSession_FullMethodName, w.options...)
	return c.CallServerStream(ctx, connect.NewRequest(&supervisorv1.WatchSessionRequest{SessionId: "s"}))
}

func TestServices_EachProtocolPassesCaller(t *testing.T) {
	r := newRig(t, "viewer")
	r.watch = func(stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
		for i := range 100 {
			if err := stream.Send(&supervisorv1.WatchSessionResponse{Event: &supervisorv1.Event{Cursor: fmt.Sprint(i)}}); err != nil {
				return err
			}
		}
		return nil
	}
	want := delegation.Caller{Name: "Łucja of the build", Role: "viewer"}
	for name, w := range ways(t) {
		t.Run(name, func(t *testing.T) {
			res, err := get(t.Context(), r, w, "a\u202e\"b")
			if err != nil || res.GetSession().GetSessionId() != "a\u202e\"b" {
				t.Fatalf("got %v, %v", res, err)
			}
			if got := <-r.callers; got != want {
				t.Errorf("called for %+v, want %+v", got, want)
			}
			_, err = get(t.Context(), r, w, "none")
			var failed *connect.Error
			if !errors.As(err, &failed) || failed.Code() != connect.CodeNotFound || failed.Message() != "there is no such session" || len(failed.Details()) != 1 {
				t.Errorf("an error arrived as %v", err)
			}
			<-r.callers
			stream, err := watch(t.Context(), r, w)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for ; stream.Receive(); n++ {
				if got := stream.Msg().GetEvent().GetCursor(); got != fmt.Sprint(n) {
					t.Fatalf("event %d has the cursor %q", n, got)
				}
			}
			if n != 100 || stream.Err() != nil {
				t.Errorf("%d events, %v", n, stream.Err())
			}
			_ = stream.Close()
			if got := <-r.callers; got != want {
				t.Errorf("watched for %+v, want %+v", got, want)
			}
		})
	}
}

func TestCall_EndsWithDeadlineOrCancel(t *testing.T) {
	r := newRig(t, "viewer")
	all := ways(t)
	var calls sync.WaitGroup
	for name, w := range all {
		calls.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second) // in which the call reaches the supervisor, however busy the machine is
			defer cancel()
			if _, err := get(ctx, r, w, "slow"); connect.CodeOf(err) != connect.CodeDeadlineExceeded {
				t.Errorf("%s: after its time: %v", name, err)
			}
		})
	}
	for range all {
		<-r.callers
	}
	for range all {
		<-r.ended
	}
	calls.Wait()
	for name, w := range all {
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error, 1)
		go func() {
			_, err := get(ctx, r, w, "slow")
			failed <- err
		}()
		<-r.callers
		cancel()
		if err := <-failed; connect.CodeOf(err) != connect.CodeCanceled {
			t.Errorf("%s: given up: %v", name, err)
		}
		if err := <-r.ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: the supervisor's call ended with %v", name, err)
		}
	}
}

func TestStream_EndsWithToken(t *testing.T) {
	for name, w := range ways(t) {
		r := newRig(t, "viewer")
		r.watch = func(stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
			_ = stream.Send(&supervisorv1.WatchSessionResponse{})
			<-stream.Context().Done()
			return stream.Context().Err()
		}
		stream, err := watch(t.Context(), r, w)
		if err != nil || !stream.Receive() {
			t.Fatalf("%s: %v", name, err)
		}
		r.handler.Sweep()
		r.revoked.Store(true)
		r.handler.Sweep()
		if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnauthenticated {
			t.Errorf("%s: ended with %v", name, stream.Err())
		}
		_ = stream.Close()
	}
}

// post sends body unchanged, as Connect in JSON.
func post(t *testing.T, r *rig, path, body string, headers ...string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	http.DefaultClient.CloseIdleConnections()
	return res.StatusCode, string(text)
}

// all calls tell for every method.
func all(tell func(path string, m protoreflect.MethodDescriptor)) {
	protoregistry.GlobalFiles.RangeFilesByPackage("acphost.supervisor.v1", func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			methods := f.Services().Get(i).Methods()
			for j := range methods.Len() {
				tell(fmt.Sprintf("/%s/%s", methods.Get(j).Parent().FullName(), methods.Get(j).Name()), methods.Get(j))
			}
		}
		return true
	})
}

func TestRole_LimitsMethods(t *testing.T) {
	ways := ways(t)
	for _, role := range append([]string{"", "gateway", "root"}, delegation.Roles()...) {
		r := newRig(t, role)
		r.watch = func(grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error { return nil }
		n := 0
		all(func(path string, m protoreflect.MethodDescriptor) {
			if m.Parent().Name() == "GatewayService" {
				if status, _ := post(t, r, path, "{}"); status != http.StatusNotFound {
					t.Errorf("%s: %d, want 404", path, status)
				}
				return
			}
			n++
			need := delegation.NeedOf(m)
			may := auth.Caller{Role: role}.HasRole(need.Role)
			for name, w := range ways {
				call := func(body proto.Message) error {
					codec := connect.Codec(sending{body})
					if strings.Contains(name, "JSON") {
						codec = sendingJSON{sending{body}}
					}
					c := connect.NewClient[anyMessage, anyMessage](w.http, r.url+path, append(slices.Clip(w.options), connect.WithCodec(codec))...)
					if m.IsStreamingServer() {
						stream, err := c.CallServerStream(t.Context(), connect.NewRequest(&anyMessage{}))
						if err != nil {
							return err
						}
						for stream.Receive() {
						}
						_ = stream.Close()
						return stream.Err()
					}
					_, err := c.CallUnary(t.Context(), connect.NewRequest(&anyMessage{}))
					return err
				}
				request, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
				if err != nil {
					t.Fatal(err)
				}
				req := request.New()
				if err := call(req.Interface()); (connect.CodeOf(err) != connect.CodePermissionDenied) != may {
					t.Errorf("%s as %q calls %s: %v, want %v", name, role, path, err, may)
				}
				if look := m.Input().Fields().ByName(delegation.OnlyLook); need.Asks {
					req.Set(look, protoreflect.ValueOfBool(true))
					if err := call(req.Interface()); (connect.CodeOf(err) != connect.CodePermissionDenied) != (auth.Caller{Role: role}).HasRole("viewer") {
						t.Errorf("%s as %q only looks by %s: %v", name, role, path, err)
					}
				}
			}
		})
		if n < 36 {
			t.Errorf("%d methods are served", n)
		}
		if reached := r.reached.Load(); role == "" && reached != 0 {
			t.Errorf("%d calls reached the supervisor", reached)
		}
	}
}

// anyMessage represents a message of a codec.
type anyMessage struct{}

// sending is a codec that sends its own message, whatever it is given, and reads none.
type sending struct{ m proto.Message }

func (sending) Name() string                  { return "proto" }
func (s sending) Marshal(any) ([]byte, error) { return proto.Marshal(s.m) }
func (sending) Unmarshal([]byte, any) error   { return nil }

type sendingJSON struct{ sending }

func (sendingJSON) Name() string                  { return "json" }
func (s sendingJSON) Marshal(any) ([]byte, error) { return protojson.Marshal(s.m) }

func TestRequest_SizeIsLimited(t *testing.T) {
	const path = supervisorv1.SupervisorStateService_GetSession_FullMethodName
	long := func(n int) string { return `{"sessionId": "` + strings.Repeat("x", n) + `"}` }
	viewer, operator := newRig(t, "viewer"), newRig(t, "operator")
	for name, c := range map[string]struct {
		r      *rig
		body   string
		header []string
		want   int
	}{
		"a viewer's that is short":      {viewer, long(60 << 10), nil, http.StatusOK},
		"a viewer's that is long":       {viewer, long(65 << 10), nil, http.StatusTooManyRequests},
		"an operator's that is long":    {operator, long(1 << 20), nil, http.StatusOK},
		"an operator's that is longer":  {operator, long(17 << 20), nil, http.StatusTooManyRequests},
		"a field that is not known":     {viewer, `{"sesionId": "x"}`, nil, http.StatusBadRequest},
		"no JSON":                       {viewer, `{`, nil, http.StatusBadRequest},
		"no protobuf":                   {viewer, "\xff\xff", []string{"Content-Type", "application/proto"}, http.StatusBadRequest},
		"a form":                        {viewer, `{}`, []string{"Content-Type", "application/x-www-form-urlencoded"}, http.StatusUnsupportedMediaType},
		"text":                          {viewer, `{}`, []string{"Content-Type", "text/plain"}, http.StatusUnsupportedMediaType},
		"a compressed body":             {viewer, `{}`, []string{"Content-Encoding", "gzip"}, http.StatusNotImplemented},
		"a compression that is unknown": {viewer, `{}`, []string{"Content-Encoding", "br"}, http.StatusNotImplemented},
	} {
		if got, text := post(t, c.r, path, c.body, c.header...); got != c.want {
			t.Errorf("%s: %d (%.200s), want %d", name, got, text, c.want)
		}
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, viewer.url+path+"?encoding=json&message=%7B%7D", nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("a GET: %d, want 405", res.StatusCode)
	}
}

func TestRequest_MetadataIsDropped(t *testing.T) {
	r := newRig(t, "viewer")
	code, _ := post(t, r, supervisorv1.SupervisorStateService_GetSession_FullMethodName, "{}", delegation.CallerKey, "root", delegation.RoleKey, "operator", "Authorization", "Bearer x")
	if got, want := <-r.callers, (delegation.Caller{Name: "Łucja of the build", Role: "viewer"}); code != http.StatusOK || got != want {
		t.Errorf("called for %+v (%d), want %+v", got, code, want)
	}
}

func TestCall_LimitPerCaller(t *testing.T) {
	r := newRig(t, "viewer")
	r.watch = func(stream grpc.ServerStreamingServer[supervisorv1.WatchSessionResponse]) error {
		<-stream.Context().Done()
		return nil
	}
	w := ways(t)["gRPC"]
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for range 64 {
		stream, err := watch(ctx, r, w)
		if err != nil {
			t.Fatal(err)
		}
		defer stream.Close()
		<-r.callers
	}
	if _, err := get(t.Context(), r, w, "s"); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("a call too many: %v", err)
	}
	r.handler.Close()
	if _, err := get(t.Context(), r, w, "s"); err == nil {
		t.Error("a call after the end was answered")
	}
}

func TestError_OmitsAddressOfSupervisor(t *testing.T) {
	r := newRig(t, "viewer")
	r.stop()
	if _, err := get(t.Context(), r, ways(t)["gRPC"], "s"); connect.CodeOf(err) != connect.CodeUnavailable || !strings.Contains(err.Error(), "cannot be reached") || strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("got %v", err)
	}
}
