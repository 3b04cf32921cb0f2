package conformance_test

import (
	"context"
	"errors"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/test/bufconn"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// naiveFS is a hasty implementation: without roots, error codes and checks.
type naiveFS struct {
	fsv1.UnimplementedFileSystemServiceServer
}

func (naiveFS) ReadTextFile(_ context.Context, r *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	if info, err := os.Stat(r.GetPath()); err == nil && (!info.Mode().IsRegular() || info.Size() > 64<<20) {
		return nil, errors.New("does not exist as a file of a sensible size") // even it may not take the test down
	}
	content, err := os.ReadFile(r.GetPath())
	if err != nil {
		return nil, err
	}
	lines := strings.Split(string(content), "\n")
	from := min(int(r.GetLine()), len(lines))
	return &fsv1.ReadTextFileResponse{Content: strings.ToValidUTF8(strings.Join(lines[from:], "\n"), "?")}, nil
}

func (naiveFS) WriteTextFile(_ context.Context, r *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	// The suite's escapes must not do harm outside the temporary folder.
	if path := filepath.Clean(r.GetPath()); !strings.HasPrefix(path, os.TempDir()) {
		return &fsv1.WriteTextFileResponse{}, nil
	}
	return &fsv1.WriteTextFileResponse{}, os.WriteFile(r.GetPath(), []byte(r.GetContent()), 0o644)
}

func (naiveFS) Resolve(_ context.Context, r *fsv1.ResolveRequest) (*fsv1.ResolveResponse, error) {
	return &fsv1.ResolveResponse{Path: filepath.Clean(r.GetPath()), Exists: true, InsideRoots: true}, nil
}

func (naiveFS) ListDirectory(_ context.Context, r *fsv1.ListDirectoryRequest) (*fsv1.ListDirectoryResponse, error) {
	entries, err := os.ReadDir(r.GetPath())
	resp := &fsv1.ListDirectoryResponse{}
	for _, e := range slices.Backward(entries) {
		resp.Entries = append(resp.Entries, &fsv1.DirectoryEntry{Name: e.Name(), Type: "file"})
	}
	return resp, err
}

// results runs a suite and returns the result of each case.
func results(t *testing.T, conn grpc.ClientConnInterface, kind string) map[string]error {
	t.Helper()
	all := make(map[string]error)
	suite := conformance.Suite{Conn: conn, Kind: kind}
	for _, c := range conformance.Cases(kind) {
		if _, twice := all[c.Name]; twice {
			t.Errorf("two cases are named %q", c.Name)
		}
		all[c.Name] = suite.RunCase(t.Context(), c)
	}
	return all
}

func TestSuite_FailsNaiveFileSystem(t *testing.T) {
	got := results(t, handlertest.Serve(t, handler.Handler{
		Name: "naive", Version: "1",
		Register: func(r grpc.ServiceRegistrar) { fsv1.RegisterFileSystemServiceServer(r, naiveFS{}) },
	}), conformance.KindFS)

	passes := map[string]bool{ // all others it must fail
		"ReadTextFile returns a file as it is":             true,
		"ReadTextFile returns a large file":                true,
		"ReadTextFile answers many calls at once":          true,
		"links inside the roots work, absolute ones too":   true,
		"a link in a root's own path works":                true,
		"WriteTextFile makes and replaces files":           true,
		"WriteTextFile keeps the form that a read reports": true,
		"WriteTextFile keeps permissions":                  true,
		"WriteTextFile follows a link that stays inside":   true,
		"WriteTextFile keeps hard links together":          true,
		"ReadTextFile past the end is empty":               true,
	}
	racy := map[string]bool{
		"fs/WriteTextFile is atomic":                                         true, // unless the reader is never scheduled in between
		"fs/ReadTextFile ends when it is cancelled, and only that call does": true, // unless its error comes after the cancellation
	}
	for name, err := range got {
		short, ok := strings.CutPrefix(name, "fs/")
		if !ok {
			if err != nil {
				t.Errorf("%s failed though the handler's frame is sound: %v", name, err)
			}
			continue
		}
		skipped := errors.Is(err, conformance.ErrSkipped)
		if pass := err == nil; pass != passes[short] && !racy[name] && !skipped {
			t.Errorf("%s: %v, want a pass: %v", name, err, passes[short])
		}
	}
	if len(got) < 40 {
		t.Errorf("only %d cases ran", len(got))
	}
}

// sloppyPlugin gets everything wrong that every handler must get right.
type sloppyPlugin struct {
	pluginv1.UnimplementedPluginServiceServer
	described int
}

func (s *sloppyPlugin) Describe(context.Context, *pluginv1.DescribeRequest) (*pluginv1.DescribeResponse, error) {
	s.described++
	return &pluginv1.DescribeResponse{Version: strings.Repeat("v", s.described)}, nil
}

func (*sloppyPlugin) Configure(_ context.Context, r *pluginv1.ConfigureRequest) (*pluginv1.ConfigureResponse, error) {
	if r.GetSettings() == nil {
		return nil, errors.New("settings are missing")
	}
	return &pluginv1.ConfigureResponse{}, nil
}

func (*sloppyPlugin) Hold(*pluginv1.HoldRequest, grpc.ServerStreamingServer[pluginv1.HoldResponse]) error {
	return nil
}

func (*sloppyPlugin) HoldAll(grpc.BidiStreamingServer[pluginv1.HoldAllRequest, pluginv1.HoldAllResponse]) error {
	return nil
}

func TestSuite_FailsSloppyPlugin(t *testing.T) {
	l := bufconn.Listen(1 << 20)
	g := grpc.NewServer() // 4 MiB, no health
	pluginv1.RegisterPluginServiceServer(g, &sloppyPlugin{})
	served := make(chan error, 1)
	go func() { served <- g.Serve(l) }()
	conn, err := grpc.NewClient("passthrough:sloppy",
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return l.DialContext(ctx) }),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = conn.Close()
		g.Stop()
		<-served
	}()
	got := results(t, conn, conformance.KindExtension)
	for name, err := range got {
		sound := name == "plugin/an unknown method is UNIMPLEMENTED"
		if (err == nil) != sound {
			t.Errorf("%s: %v", name, err)
		}
	}
	if len(got) < 10 {
		t.Errorf("only %d cases ran", len(got))
	}
}

func TestCases_UnknownKind(t *testing.T) {
	if n := len(conformance.Cases("nonsense")); n != 0 {
		t.Errorf("it has %d", n)
	}
	for _, kind := range conformance.Kinds() {
		if len(conformance.Cases(kind)) == 0 {
			t.Errorf("%s has none", kind)
		}
	}
}
