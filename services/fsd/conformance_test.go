package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/testkit"
	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	"github.com/acphost/acphost/sdk/conformance"
	"github.com/acphost/acphost/sdk/handler"
	"github.com/acphost/acphost/sdk/handlertest"
	"github.com/acphost/acphost/sdk/launch"
	"go.uber.org/goleak"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/services/fsd/internal/files"
	"github.com/acphost/acphost/services/fsd/internal/server"
)

// TestMain plays fsd.
func TestMain(m *testing.M) {
	if os.Getenv(launch.CookieKey) != "" || len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "--listen") {
		main()
	}
	goleak.VerifyTestMain(m)
}

func inProcess() (handler.Handler, *server.Server) {
	fs := server.New(files.New(), slog.New(slog.DiscardHandler))
	return handler.Handler{
		Name: "fsd", Version: "test",
		Register: fs.Register, Configure: fs.Configure, Logger: slog.New(slog.DiscardHandler),
	}, fs
}

func TestConformance_InProcess(t *testing.T) {
	h, _ := inProcess()
	handlertest.Run(t, conformance.KindFS, h)
}

func TestConformance_Child(t *testing.T) {
	conform(t, launch.Spec{Name: "fsd", Command: []string{testkit.Self(t)}})
}

func TestConformance_Sidecar(t *testing.T) {
	dir := testkit.ShortDir(t)
	socket := filepath.Join(dir, "s")
	key := filepath.Join(dir, "secret")
	if err := os.WriteFile(key, []byte(strings.Repeat("k", 32)), 0o600); err != nil {
		t.Fatal(err)
	}
	sidecar := exec.Command(testkit.Self(t), "--listen=unix://"+socket, "--secret-file="+key)
	sidecar.Stderr = os.Stderr
	if err := sidecar.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(sidecar.Process.Signal(os.Interrupt), sidecar.Wait()); err != nil {
			t.Errorf("the sidecar: %v", err)
		}
	})
	testkit.Eventually(t, "the sidecar listens", func() bool { return testkit.Listens(socket) })
	conform(t, launch.Spec{Name: "fsd", Address: "unix://" + socket, SecretFile: key})
}

func conform(t *testing.T, spec launch.Spec) {
	instance, err := launch.Start(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout())
		defer cancel()
		if err := instance.Stop(ctx); err != nil {
			t.Errorf("stop: %v", err)
		}
	}()
	suite := conformance.Suite{Conn: instance, Kind: conformance.KindFS, Sidecar: instance.Sidecar()}
	for _, c := range conformance.Cases(conformance.KindFS) {
		if err := suite.RunCase(t.Context(), c); err != nil && !errors.Is(err, conformance.ErrSkipped) {
			t.Errorf("%s: %v", c.Name, err)
		}
	}
}

// flawed is fsd with one thing wrong.
type flawed struct {
	*server.Server
	read  func(*fsv1.ReadTextFileRequest, *fsv1.ReadTextFileResponse, error) (*fsv1.ReadTextFileResponse, error)
	write func(context.Context, *fsv1.WriteTextFileRequest) (bool, error)
}

func (f flawed) ReadTextFile(ctx context.Context, req *fsv1.ReadTextFileRequest) (*fsv1.ReadTextFileResponse, error) {
	resp, err := f.Server.ReadTextFile(ctx, req)
	if f.read == nil {
		return resp, err
	}
	return f.read(req, resp, err)
}

func (f flawed) WriteTextFile(ctx context.Context, req *fsv1.WriteTextFileRequest) (*fsv1.WriteTextFileResponse, error) {
	if f.write != nil {
		if done, err := f.write(ctx, req); done {
			return &fsv1.WriteTextFileResponse{}, err
		}
	}
	return f.Server.WriteTextFile(ctx, req)
}

// TestConformance_FindsFlaws: the conformance case for each flaw must fail.
func TestConformance_FindsFlaws(t *testing.T) {
	onError := func(code codes.Code, change func(string) error) func(*fsv1.ReadTextFileRequest, *fsv1.ReadTextFileResponse, error) (*fsv1.ReadTextFileResponse, error) {
		return func(_ *fsv1.ReadTextFileRequest, resp *fsv1.ReadTextFileResponse, err error) (*fsv1.ReadTextFileResponse, error) {
			if status.Code(err) == code {
				return nil, change(status.Convert(err).Message())
			}
			return resp, err
		}
	}
	onContent := func(change func(*fsv1.ReadTextFileRequest, string) string) func(*fsv1.ReadTextFileRequest, *fsv1.ReadTextFileResponse, error) (*fsv1.ReadTextFileResponse, error) {
		return func(req *fsv1.ReadTextFileRequest, resp *fsv1.ReadTextFileResponse, err error) (*fsv1.ReadTextFileResponse, error) {
			if err == nil {
				resp.Content = change(req, resp.GetContent())
			}
			return resp, err
		}
	}
	for name, c := range map[string]struct {
		flaw   flawed
		caught string
	}{
		"line endings are changed": {
			flawed{read: onContent(func(_ *fsv1.ReadTextFileRequest, s string) string { return strings.ReplaceAll(s, "\r\n", "\n") })},
			"fs/ReadTextFile returns a file as it is",
		},
		"a last newline is added": {
			flawed{read: onContent(func(_ *fsv1.ReadTextFileRequest, s string) string { return strings.TrimSuffix(s, "\n") + "\n" })},
			"fs/ReadTextFile returns a file as it is",
		},
		"the end of a line is lost": {
			flawed{read: onContent(func(r *fsv1.ReadTextFileRequest, s string) string {
				if r.Limit != nil {
					return strings.TrimSuffix(s, "\n")
				}
				return s
			})},
			"fs/ReadTextFile counts lines from 1 and keeps their endings",
		},
		"a missing file has another wording": {
			flawed{read: onError(codes.NotFound, func(m string) error { return status.Error(codes.NotFound, "ENOENT: "+m) })},
			"fs/ReadTextFile reports Resource not found for a missing file",
		},
		"an escape looks like a missing file": {
			flawed{read: onError(codes.InvalidArgument, func(m string) error {
				return status.Error(codes.NotFound, strings.Replace(m, "Path escapes workspace", "Resource not found", 1))
			})},
			"fs/a link that leaves the roots is rejected",
		},
		"a message says that something does not exist": {
			flawed{read: onError(codes.InvalidArgument, func(m string) error {
				return status.Error(codes.InvalidArgument, m+" (does not exist)")
			})},
			"fs/a call without context or roots is rejected",
		},
		"writes go straight into the file": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				if len(req.GetContent()) < 1<<20 {
					return false, nil
				}
				f, err := os.Create(req.GetPath())
				if err != nil {
					return true, err
				}
				for _, b := range []byte(req.GetContent()[:200]) {
					if _, err := f.Write([]byte{b}); err != nil {
						return true, err
					}
				}
				_, err = f.WriteString(req.GetContent()[200:])
				return true, errors.Join(err, f.Close())
			}},
			"fs/WriteTextFile is atomic",
		},
		"a temporary file is left": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				return false, os.WriteFile(req.GetContext().GetRoots()[0].GetPath()+"/left", nil, 0o644)
			}},
			"fs/WriteTextFile makes and replaces files",
		},
		"stale writes go through": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				req.Context.ExpectedDigest = ""
				return false, nil
			}},
			"fs/WriteTextFile rejects a stale write",
		},
		"read-only roots are written": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				for _, root := range req.GetContext().GetRoots() {
					root.ReadOnly = false
				}
				return false, nil
			}},
			"fs/WriteTextFile rejects a read-only root",
		},
		"an allowed file opens its folder": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				if allowed := req.GetContext().GetAllowedPath(); allowed != "" {
					req.Context.Roots = append(req.Context.Roots, &acpv1.Root{Path: filepath.Dir(allowed)})
					req.Context.ResolvedPath = nil
				}
				return false, nil
			}},
			"fs/an allowed file outside the roots is opened exactly, or rejected",
		},
		"the gate's path is ignored": {
			flawed{write: func(_ context.Context, req *fsv1.WriteTextFileRequest) (bool, error) {
				req.Context.ResolvedPath = nil
				return false, nil
			}},
			"fs/a path with another target than was resolved before is rejected",
		},
	} {
		t.Run(name, func(t *testing.T) {
			h, fs := inProcess()
			c.flaw.Server = fs
			h.Register = func(r grpc.ServiceRegistrar) { fsv1.RegisterFileSystemServiceServer(r, c.flaw) }
			suite := conformance.Suite{Conn: handlertest.Serve(t, h), Kind: conformance.KindFS}
			for _, one := range conformance.Cases(conformance.KindFS) {
				if one.Name != c.caught {
					continue
				}
				if err := suite.RunCase(t.Context(), one); err == nil || errors.Is(err, conformance.ErrSkipped) {
					t.Errorf("%s: %v", one.Name, err)
				}
				return
			}
			t.Errorf("there is no case %q", c.caught)
		})
	}
}
