package admin_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/grpc/codes"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/fault"
	"github.com/acphost/acphost/internal/testkit"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
	"github.com/acphost/acphost/sdk/client"
	"github.com/acphost/acphost/services/supervisor/internal/admin"
)

// This test binary plays every process of these tests, by its first argument.
func TestMain(m *testing.M) {
	// Else the race detector makes each of these processes wait for a second before it ends.
	if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
		panic(err)
	}
	if len(os.Args) > 1 {
		if status, ok := play(os.Args[1], os.Args[2:]); ok {
			os.Exit(status)
		}
	}
	// In the user's runtime folder, commands in tests of other packages would find the servers of these.
	dir, err := os.MkdirTemp("", "acp")
	if err != nil {
		panic(err)
	}
	if err := os.Setenv("XDG_RUNTIME_DIR", dir); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		_ = os.RemoveAll(dir)
		os.Exit(status)
	}))
}

// fake is a State with one of each.
type fake struct {
	pid          int64
	started      time.Time
	terminalsErr error
}

func (f fake) GetStatus(context.Context, *supervisorv1.GetStatusRequest) (*supervisorv1.GetStatusResponse, error) {
	return &supervisorv1.GetStatusResponse{Version: "1.2.3", Pid: f.pid, StartTime: timestamppb.New(f.started)}, nil
}

func (fake) ListHandlers(context.Context, *supervisorv1.ListHandlersRequest) (*supervisorv1.ListHandlersResponse, error) {
	return &supervisorv1.ListHandlersResponse{Handlers: []*supervisorv1.HandlerStatus{{Name: "fs"}}}, nil
}

func (fake) ListRoutes(context.Context, *supervisorv1.ListRoutesRequest) (*supervisorv1.ListRoutesResponse, error) {
	return &supervisorv1.ListRoutesResponse{Routes: []*supervisorv1.Route{{Method: "fs/read_text_file"}}}, nil
}

func (fake) ListSessions(context.Context, *supervisorv1.ListSessionsRequest) (*supervisorv1.ListSessionsResponse, error) {
	return &supervisorv1.ListSessionsResponse{Sessions: []*supervisorv1.Session{{SessionId: "s1"}}}, nil
}

func (f fake) ListTerminals(context.Context, *supervisorv1.ListTerminalsRequest) (*supervisorv1.ListTerminalsResponse, error) {
	return &supervisorv1.ListTerminalsResponse{Terminals: []*supervisorv1.Terminal{{TerminalId: "t1"}}}, f.terminalsErr
}

func (fake) GetSession(_ context.Context, req *supervisorv1.GetSessionRequest) (*supervisorv1.GetSessionResponse, error) {
	if req.GetSessionId() != "s1" {
		return nil, fault.New(fault.NotFound, "no session %q is open here", req.GetSessionId())
	}
	return &supervisorv1.GetSessionResponse{Session: &supervisorv1.Session{SessionId: req.GetSessionId(), AgentId: req.GetAgentId()}}, nil
}

func (fake) WatchOutput(_ context.Context, id string, send func(*supervisorv1.WatchOutputResponse) error) error {
	if err := send(&supervisorv1.WatchOutputResponse{Data: []byte(id)}); err != nil {
		return err
	}
	return send(&supervisorv1.WatchOutputResponse{Ended: true, Signal: "SIGKILL"})
}

func (fake) GetUsage(context.Context, *supervisorv1.GetUsageRequest) (*supervisorv1.GetUsageResponse, error) {
	return &supervisorv1.GetUsageResponse{}, nil
}

func (fake) ListGrants(context.Context, *supervisorv1.ListGrantsRequest) (*supervisorv1.ListGrantsResponse, error) {
	return &supervisorv1.ListGrantsResponse{Grants: []*supervisorv1.Grant{{Id: "abcdefgh"}}}, nil
}

func runtimeDir(dir string) func(string) string {
	return func(name string) string {
		if name == "XDG_RUNTIME_DIR" {
			return dir
		}
		return ""
	}
}

func start(t *testing.T, o admin.Options) *admin.Server {
	t.Helper()
	if o.State == nil {
		o.State = fake{pid: int64(os.Getpid())}
	}
	s, err := admin.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

func dial(t *testing.T, path string) *client.Client {
	t.Helper()
	conn, err := client.Supervisor{Socket: path}.Dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func TestSocket_ServesState(t *testing.T) {
	s := start(t, admin.Options{Env: runtimeDir(testkit.ShortDir(t))})
	c := supervisorv1.NewSupervisorStateServiceClient(dial(t, s.Path()))
	ctx := t.Context()

	st, err := c.GetStatus(ctx, &supervisorv1.GetStatusRequest{})
	if err != nil || st.GetVersion() != "1.2.3" {
		t.Errorf("GetStatus: %v, %v", st, err)
	}
	handlers, err := c.ListHandlers(ctx, &supervisorv1.ListHandlersRequest{})
	if err != nil || handlers.GetHandlers()[0].GetName() != "fs" {
		t.Errorf("ListHandlers: %v, %v", handlers, err)
	}
	routes, err := c.ListRoutes(ctx, &supervisorv1.ListRoutesRequest{})
	if err != nil || routes.GetRoutes()[0].GetMethod() != "fs/read_text_file" {
		t.Errorf("ListRoutes: %v, %v", routes, err)
	}
	sessions, err := c.ListSessions(ctx, &supervisorv1.ListSessionsRequest{})
	if err != nil || sessions.GetSessions()[0].GetSessionId() != "s1" {
		t.Errorf("ListSessions: %v, %v", sessions, err)
	}
	terminals, err := c.ListTerminals(ctx, &supervisorv1.ListTerminalsRequest{})
	if err != nil || terminals.GetTerminals()[0].GetTerminalId() != "t1" {
		t.Errorf("ListTerminals: %v, %v", terminals, err)
	}
	grants, err := c.ListGrants(ctx, &supervisorv1.ListGrantsRequest{})
	if err != nil || grants.GetGrants()[0].GetId() != "abcdefgh" {
		t.Errorf("ListGrants: %v, %v", grants, err)
	}
}

func TestListTerminals_ReportsErrors(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		code codes.Code
	}{
		{"a plain error", errors.New("termd is away"), codes.Unavailable},
		{"a handler's own status", status.Error(codes.DeadlineExceeded, "termd is away"), codes.DeadlineExceeded},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := start(t, admin.Options{State: fake{terminalsErr: c.err}, Env: runtimeDir(testkit.ShortDir(t))})
			_, err := supervisorv1.NewSupervisorStateServiceClient(dial(t, s.Path())).ListTerminals(t.Context(), &supervisorv1.ListTerminalsRequest{})
			if status.Code(err) != c.code || !strings.Contains(err.Error(), "termd is away") {
				t.Errorf("error is %v, want %v with its reason", err, c.code)
			}
		})
	}
}

func TestServer_ServesHealthAndReflection(t *testing.T) {
	s := start(t, admin.Options{Env: runtimeDir(testkit.ShortDir(t))})
	conn := dial(t, s.Path())
	for _, service := range []string{"", "acphost.supervisor.v1.SupervisorStateService"} {
		resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{Service: service})
		if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_SERVING {
			t.Errorf("health of %q: %v, %v", service, resp, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: &reflectionv1.ServerReflectionRequest_ListServices{}}); err != nil {
		t.Fatal(err)
	}
	resp, err := stream.Recv()
	if err != nil || !strings.Contains(resp.String(), "acphost.supervisor.v1.SupervisorStateService") {
		t.Errorf("reflection: %v, %v", resp, err)
	}
}

func TestHealth_NotServingWhileDraining(t *testing.T) {
	s := start(t, admin.Options{Env: runtimeDir(testkit.ShortDir(t))})
	conn := dial(t, s.Path())
	s.Draining()
	resp, err := healthv1.NewHealthClient(conn).Check(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil || resp.GetStatus() != healthv1.HealthCheckResponse_NOT_SERVING {
		t.Errorf("health: %v, %v", resp, err)
	}
	if _, err := supervisorv1.NewSupervisorStateServiceClient(conn).GetStatus(t.Context(), &supervisorv1.GetStatusRequest{}); err != nil {
		t.Errorf("a call: %v", err)
	}
}

func TestSocket_IsPrivate(t *testing.T) {
	dir := testkit.ShortDir(t)
	s := start(t, admin.Options{Env: runtimeDir(dir)})
	if got := filepath.Dir(s.Path()); got != filepath.Join(dir, "acphost") {
		t.Errorf("the socket is in %s, want %s/acphost", got, dir)
	}
	for path, want := range map[string]os.FileMode{s.Path(): 0o600, filepath.Dir(s.Path()): 0o700} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %04o, want %04o", path, got, want)
		}
	}
}

func TestStop_RemovesSocketAndEndsStreams(t *testing.T) {
	s := start(t, admin.Options{Env: runtimeDir(testkit.ShortDir(t))})
	watch, err := healthv1.NewHealthClient(dial(t, s.Path())).Watch(t.Context(), &healthv1.HealthCheckRequest{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := watch.Recv(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Stop()
	if _, err := os.Lstat(s.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the socket is still there: %v", err)
	}
	for {
		if _, err := watch.Recv(); err != nil {
			break
		}
	}
}

func TestStart_RejectsFolderOfOthers(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare func(t *testing.T, dir string) // makes dir
		want    string
	}{
		{"open to others", func(t *testing.T, dir string) {
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o755)); err != nil {
				t.Fatal(err)
			}
		}, "chmod 0700"},
		{"a symbolic link", func(t *testing.T, dir string) {
			if err := os.Symlink(testkit.ShortDir(t), dir); err != nil {
				t.Fatal(err)
			}
		}, "is not a folder"},
		{"a file", func(t *testing.T, dir string) {
			if err := os.WriteFile(dir, nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}, "is not a folder"},
		{"another user's", func(t *testing.T, dir string) {
			if os.Geteuid() != 0 {
				t.Skip("only root can give a folder away")
			}
			if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, -1)); err != nil {
				t.Fatal(err)
			}
		}, "belongs to user 12345"},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := testkit.ShortDir(t)
			c.prepare(t, filepath.Join(dir, "acphost"))
			s, err := admin.Start(admin.Options{State: fake{}, Env: runtimeDir(dir)})
			if err == nil {
				s.Stop()
				t.Fatal("it was served, want an error")
			}
			if !strings.Contains(err.Error(), c.want) {
				t.Errorf("error is %v, want %q in it", err, c.want)
			}
		})
	}
}

func TestStart_RejectsTooLongSocketPath(t *testing.T) {
	dir := filepath.Join(testkit.ShortDir(t), strings.Repeat("x", 100))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := admin.Start(admin.Options{State: fake{}, Env: runtimeDir(dir), Socket: filepath.Join(dir, "admin.sock")})
	if err == nil {
		s.Stop()
		t.Fatal("it was served, want an error")
	}
	if !strings.Contains(err.Error(), "room for 107") || !strings.Contains(err.Error(), "admin.socket") {
		t.Errorf("error is %v, want the limit and what to do", err)
	}
}

func TestSocket_ReplacesOnlyDeadSocket(t *testing.T) {
	path := filepath.Join(testkit.ShortDir(t), "own.sock")
	abandon(t, path)
	s := start(t, admin.Options{Socket: path})
	if s.Path() != path {
		t.Errorf("the path is %s, want %s", s.Path(), path)
	}
	if other, err := admin.Start(admin.Options{State: fake{}, Socket: path}); err == nil {
		other.Stop()
		t.Error("a second supervisor took the socket over")
	} else if !strings.Contains(err.Error(), "is served by another process") {
		t.Errorf("error is %v, want that the socket is served", err)
	}
	file := filepath.Join(filepath.Dir(path), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if other, err := admin.Start(admin.Options{State: fake{}, Socket: file}); err == nil {
		other.Stop()
		t.Error("a file was replaced by a socket")
	} else if !strings.Contains(err.Error(), "is not a socket") {
		t.Errorf("error is %v, want the kind of the file", err)
	}
}

// abandon leaves a socket behind as a killed process does.
func abandon(t *testing.T, path string) {
	t.Helper()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestFind_RemovesDeadSockets(t *testing.T) {
	dir := testkit.ShortDir(t)
	env := runtimeDir(dir)
	sockets := filepath.Join(dir, "acphost")
	younger := start(t, admin.Options{Env: env, State: fake{pid: 22, started: time.Unix(200, 0)}})
	older := start(t, admin.Options{Env: env, State: fake{pid: 11, started: time.Unix(100, 0)}})
	configured := start(t, admin.Options{Socket: filepath.Join(testkit.ShortDir(t), "own.sock"), State: fake{pid: 33, started: time.Unix(300, 0)}})
	dead := filepath.Join(sockets, "999-dead.sock")
	abandon(t, dead)
	silent, err := net.Listen("unix", filepath.Join(sockets, "444-silent.sock")) // connects and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	if err := os.WriteFile(filepath.Join(sockets, "file.sock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	missing := filepath.Join(dir, "missing")
	got := client.Find(t.Context(), []string{sockets, missing}, configured.Path(), older.Path(), filepath.Join(missing, "x.sock"))

	want := []struct {
		pid    int
		socket string
	}{{11, older.Path()}, {22, younger.Path()}, {33, configured.Path()}, {444, silent.Addr().String()}}
	if len(got) != len(want) {
		t.Fatalf("found %d supervisors, want %d: %v", len(got), len(want), got)
	}
	for i, w := range want {
		if got[i].PID != w.pid || got[i].Socket != w.socket || (got[i].Err != nil) != (w.pid == 444) {
			t.Errorf("supervisor %d is %v, want pid %d at %s", i, got[i], w.pid, w.socket)
		}
	}
	if _, err := os.Lstat(dead); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the dead socket is still there: %v", err)
	}
}

func TestStart_RemovesDeadSockets(t *testing.T) {
	dir := testkit.ShortDir(t)
	sockets := filepath.Join(dir, "acphost")
	if err := os.Mkdir(sockets, 0o700); err != nil {
		t.Fatal(err)
	}
	dead, fresh, old := filepath.Join(sockets, "1-a.sock"), filepath.Join(sockets, ".b.new"), filepath.Join(sockets, ".c.new")
	for _, path := range []string{dead, fresh, old} {
		abandon(t, path)
	}
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(old, hour, hour); err != nil {
		t.Fatal(err)
	}
	start(t, admin.Options{Env: runtimeDir(dir)})
	for path, want := range map[string]bool{dead: false, old: false, fresh: true} {
		if _, err := os.Lstat(path); (err == nil) != want {
			t.Errorf("%s is there: %v, want %v", path, err == nil, want)
		}
	}
}
