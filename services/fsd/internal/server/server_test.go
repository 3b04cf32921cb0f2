package server

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/acphost/acphost/services/fsd/internal/files"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const message = 64 << 20

// serve runs a server and returns a client of it, a root, and what it logs.
func serve(t *testing.T) (client fsv1.FileSystemServiceClient, s *Server, ws string, logged *bytes.Buffer) {
	t.Helper()
	logged = &bytes.Buffer{}
	s = New(files.New(), slog.New(slog.NewTextHandler(logged, nil)))
	l := bufconn.Listen(1 << 20)
	g := grpc.NewServer(grpc.MaxRecvMsgSize(message), grpc.MaxSendMsgSize(message))
	s.Register(g)
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:fsd",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(message), grpc.MaxCallSendMsgSize(message)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		g.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	ws, err = filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return fsv1.NewFileSystemServiceClient(conn), s, ws, logged
}

func callContext(roots ...string) *acpv1.CallContext {
	c := &acpv1.CallContext{SessionId: "s", Scope: strings.Repeat("0", 32), Agent: "test", ProtocolVersion: 1}
	for _, r := range roots {
		c.Roots = append(c.Roots, &acpv1.Root{Path: r})
	}
	return c
}

func put(t *testing.T, path, content string) string {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

func wantCode(t *testing.T, err error, code codes.Code, text string) {
	t.Helper()
	st := status.Convert(err)
	if st.Code() != code || !strings.Contains(st.Message(), text) {
		t.Errorf("got %v %q, want %v and %q", st.Code(), st.Message(), code, text)
	}
}

func TestServer_ReadsWritesListsAndResolves(t *testing.T) {
	client, _, ws, _ := serve(t)
	ctx, in := t.Context(), callContext(ws)
	written, err := client.WriteTextFile(ctx, &fsv1.WriteTextFileRequest{Context: in, Path: ws + "/d/f", Content: "one\ntwo\n"})
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: in, Path: ws + "/d/f"})
	if err != nil || got.GetContent() != "one\ntwo\n" || got.GetResult().GetDigest() != written.GetResult().GetDigest() ||
		got.GetResult().GetResolvedPath() != ws+"/d/f" {
		t.Errorf("read %v, %v; written %v", got, err, written)
	}
	without := callContext(ws)
	without.NoDigest = true
	rewritten, err := client.WriteTextFile(ctx, &fsv1.WriteTextFileRequest{Context: without, Path: ws + "/d/f", Content: "one\ntwo\n"})
	if err != nil || rewritten.GetResult().GetDigest() != "" {
		t.Errorf("written without a digest: %v, %v", rewritten, err)
	}
	if got, err := client.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: without, Path: ws + "/d/f"}); err != nil || got.GetResult().GetDigest() != "" {
		t.Errorf("read without a digest: %v, %v", got, err)
	}
	got, err = client.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{
		Context: in, Path: ws + "/d/f", Line: proto.Uint32(2), Limit: proto.Uint32(1),
	})
	if err != nil || got.GetContent() != "two\n" || got.GetResult().GetDigest() != "" {
		t.Errorf("read a line: %v, %v", got, err)
	}
	got, err = client.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: in, Path: ws + "/d/f", Limit: proto.Uint32(0)})
	if err != nil || got.GetContent() != "" {
		t.Errorf("read no lines: %v, %v", got, err)
	}
	list, err := client.ListDirectory(ctx, &fsv1.ListDirectoryRequest{Context: in, Path: ws + "/d"})
	want := &fsv1.DirectoryEntry{Name: "f", Type: "file", Size: 8}
	if err != nil || len(list.GetEntries()) != 1 || !proto.Equal(list.GetEntries()[0], want) || list.GetTruncated() {
		t.Errorf("listed %v, %v", list, err)
	}
	at, err := client.Resolve(ctx, &fsv1.ResolveRequest{Context: in, Path: ws + "/d/../d/f"})
	if want := (&fsv1.ResolveResponse{Path: ws + "/d/f", Exists: true, InsideRoots: true, Root: ws}); err != nil || !proto.Equal(at, want) {
		t.Errorf("resolved %v, %v", at, err)
	}
	at, err = client.Resolve(ctx, &fsv1.ResolveRequest{Context: in, Path: "/etc"})
	if err != nil || at.GetInsideRoots() || at.GetRoot() != "" {
		t.Errorf("resolved the outside: %v, %v", at, err)
	}
}

func TestErrors_HaveCodes(t *testing.T) {
	client, s, ws, logged := serve(t)
	ctx := t.Context()
	put(t, ws+"/text", "text")
	put(t, ws+"/binary", "\x00")
	put(t, ws+"/large", strings.Repeat("x", 2000))
	put(t, ws+"/ours", "policy")
	settings, err := structpb.NewStruct(map[string]any{"max_content_bytes": 1024})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Configure(ctx, &pluginv1.ConfigureRequest{
		Settings: settings, Host: &pluginv1.Host{ProtectedPaths: []string{ws + "/ours"}},
	}); err != nil {
		t.Fatal(err)
	}
	in := callContext(ws)
	readOnly := callContext(ws)
	readOnly.Roots[0].ReadOnly = true
	elsewhere := callContext(ws)
	elsewhere.ResolvedPath = &acpv1.ResolvedPath{Path: ws + "/other"}
	stale := callContext(ws)
	stale.ExpectedDigest = "sha256:00"

	for _, c := range []struct {
		context *acpv1.CallContext
		path    string
		code    codes.Code
		text    string
	}{
		{nil, ws + "/text", codes.InvalidArgument, "context"},
		{callContext(), ws + "/text", codes.InvalidArgument, "no roots"},
		{in, "text", codes.InvalidArgument, "absolute"},
		{in, "/etc/passwd", codes.InvalidArgument, "Path escapes workspace: /etc/passwd"},
		{in, ws + "/nothing", codes.NotFound, "Resource not found: " + ws + "/nothing"},
		{in, ws, codes.InvalidArgument, "directory"},
		{in, ws + "/binary", codes.InvalidArgument, "not a text file"},
		{in, ws + "/large", codes.OutOfRange, "2000"},
		{in, ws + "/ours", codes.PermissionDenied, "acphost"},
		{elsewhere, ws + "/text", codes.FailedPrecondition, "leads to"},
	} {
		_, err := client.ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: c.context, Path: c.path})
		wantCode(t, err, c.code, c.text)
	}
	for _, c := range []struct {
		context *acpv1.CallContext
		path    string
		content string
		code    codes.Code
		text    string
	}{
		{nil, ws + "/text", "", codes.InvalidArgument, "context"},
		{in, ws + "/../out", "", codes.InvalidArgument, "Path escapes workspace: "},
		{in, ws + "/ours", "", codes.PermissionDenied, "acphost"},
		{readOnly, ws + "/text", "", codes.PermissionDenied, "read-only"},
		{elsewhere, ws + "/text", "", codes.FailedPrecondition, "leads to"},
		{stale, ws + "/text", "", codes.FailedPrecondition, "changed"},
		{in, ws + "/text", strings.Repeat("x", 1025), codes.OutOfRange, "1025"},
	} {
		_, err := client.WriteTextFile(ctx, &fsv1.WriteTextFileRequest{Context: c.context, Path: c.path, Content: c.content})
		wantCode(t, err, c.code, c.text)
	}
	_, err = client.ListDirectory(ctx, &fsv1.ListDirectoryRequest{Path: ws})
	wantCode(t, err, codes.InvalidArgument, "context")
	_, err = client.ListDirectory(ctx, &fsv1.ListDirectoryRequest{Context: in, Path: ws + "/text"})
	wantCode(t, err, codes.InvalidArgument, "not a directory")
	_, err = client.Resolve(ctx, &fsv1.ResolveRequest{Path: ws})
	wantCode(t, err, codes.InvalidArgument, "context")
	_, err = client.Resolve(ctx, &fsv1.ResolveRequest{Context: in, Path: "text"})
	wantCode(t, err, codes.InvalidArgument, "absolute")
	if logged.Len() != 0 {
		t.Errorf("an agent's mistakes were logged: %s", logged)
	}
}

func TestStatusOf_EveryKindHasCode(t *testing.T) {
	for kind := files.Invalid; kind <= files.Failed; kind++ {
		if code, ok := codeOf[kind]; !ok || code == codes.OK {
			t.Errorf("kind %d has none", kind)
		}
	}
	if len(codeOf) != int(files.Failed) {
		t.Errorf("%d kinds have one", len(codeOf))
	}
	for err, code := range map[error]codes.Code{
		context.Canceled:         codes.Canceled,
		context.DeadlineExceeded: codes.DeadlineExceeded,
		os.ErrClosed:             codes.Internal,
	} {
		if got := statusOf(err).Code(); got != code {
			t.Errorf("%v became %v", err, got)
		}
	}
}

func TestErrors_InternalAreLogged(t *testing.T) {
	logged := &bytes.Buffer{}
	s := New(files.New(), slog.New(slog.NewTextHandler(logged, nil)))
	wantCode(t, s.statusError(t.Context(), "ReadTextFile", os.ErrClosed), codes.Internal, "closed")
	if !strings.Contains(logged.String(), "ReadTextFile") {
		t.Errorf("the log holds %q", logged)
	}
}

func TestWrite_LargestContentFitsMessage(t *testing.T) {
	if testing.Short() {
		t.Skip("moves 120 MiB")
	}
	client, s, ws, _ := serve(t)
	settings, err := structpb.NewStruct(map[string]any{"maxContentBytes": files.MaxMaxContent})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: settings}); err != nil {
		t.Fatal(err)
	}
	content := strings.Repeat("0123456789abcde\n", files.MaxMaxContent/16)
	if _, err := client.WriteTextFile(t.Context(), &fsv1.WriteTextFileRequest{
		Context: callContext(ws), Path: ws + "/f", Content: content,
	}); err != nil {
		t.Fatal(err)
	}
	got, err := client.ReadTextFile(t.Context(), &fsv1.ReadTextFileRequest{Context: callContext(ws), Path: ws + "/f"})
	if err != nil || got.GetContent() != content {
		t.Errorf("got %d bytes, %v", len(got.GetContent()), err)
	}
}

func TestSettings_ErrorNamesField(t *testing.T) {
	s := New(files.New(), slog.New(slog.DiscardHandler))
	for name, c := range map[string]struct {
		settings map[string]any
		host     *pluginv1.Host
		text     string
	}{
		"too small":                 {map[string]any{"max_content_bytes": 1023}, nil, "max_content_bytes"},
		"too large":                 {map[string]any{"max_content_bytes": 1 << 30}, nil, "max_content_bytes"},
		"more than fits":            {map[string]any{"max_content_bytes": "18446744073709551615"}, nil, "max_content_bytes"},
		"negative":                  {map[string]any{"max_content_bytes": -1}, nil, "max_content_bytes"},
		"a word":                    {map[string]any{"max_content_bytes": "many"}, nil, "max_content_bytes"},
		"unknown":                   {map[string]any{"max_bytes": 4096}, nil, "max_bytes"},
		"a relative protected path": {nil, &pluginv1.Host{ProtectedPaths: []string{"relative"}}, "protected_paths"},
	} {
		t.Run(name, func(t *testing.T) {
			settings, err := structpb.NewStruct(c.settings)
			if err != nil {
				t.Fatal(err)
			}
			for _, only := range []bool{true, false} {
				_, err = s.Configure(t.Context(), &pluginv1.ConfigureRequest{Settings: settings, Host: c.host, ValidateOnly: only})
				wantCode(t, err, codes.InvalidArgument, c.text)
			}
		})
	}
}

func TestConfigure_ValidateOnlyChangesNothing(t *testing.T) {
	client, s, ws, _ := serve(t)
	put(t, ws+"/f", strings.Repeat("x", 2000))
	settings, err := structpb.NewStruct(map[string]any{"max_content_bytes": 1024})
	if err != nil {
		t.Fatal(err)
	}
	req := &pluginv1.ConfigureRequest{
		Settings: settings, Host: &pluginv1.Host{ProtectedPaths: []string{ws}}, ValidateOnly: true,
	}
	if _, err := s.Configure(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	if _, err := client.ReadTextFile(t.Context(), &fsv1.ReadTextFileRequest{Context: callContext(ws), Path: ws + "/f"}); err != nil {
		t.Error(err)
	}
	req.ValidateOnly = false
	for range 2 {
		if _, err := s.Configure(t.Context(), req); err != nil {
			t.Fatal(err)
		}
	}
	_, err = client.ReadTextFile(t.Context(), &fsv1.ReadTextFileRequest{Context: callContext(ws), Path: ws + "/f"})
	wantCode(t, err, codes.PermissionDenied, "acphost")
}
