package roots_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	"github.com/acphost/acphost/sdk/roots"
)

// TestEnter_AllowedPaths checks decisions about paths. The conformance cases for files check the rest, with
// examples/plainfs, which uses this package.
func TestEnter_AllowedPaths(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"ws/f", "ws/ro/f", "ws/.git/config", "ws/ours/key", "ws/sub/f", "out/f"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"ws/away": "../out", "ws/circle": "circle", "ws/dangles": "../out/new", "ws/near": "sub", "alias": "ws"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(dir+"/ws/ours/key", dir+"/ws/hard"); err != nil {
		t.Fatal(err)
	}
	given := []*acpv1.Root{{Path: dir + "/alias"}, {Path: dir + "/ws/ro", ReadOnly: true}}
	for path, c := range map[string]struct {
		write bool
		code  codes.Code
		leads string
	}{
		"ws/f":             {true, codes.OK, "ws/f"},
		"alias/f":          {true, codes.OK, "ws/f"},
		"alias/near/f":     {true, codes.OK, "ws/sub/f"},
		"alias/near/../f":  {true, codes.OK, "ws/f"},
		"ws/new/deep":      {true, codes.OK, "ws/new/deep"},
		"ws/ro/f":          {false, codes.OK, "ws/ro/f"},
		"alias/ro/f":       {true, codes.PermissionDenied, ""},
		"ws/.git/config":   {true, codes.PermissionDenied, ""},
		"ws/.GIT/config":   {true, codes.PermissionDenied, ""},
		"ws/ours/key":      {false, codes.PermissionDenied, ""},
		"ws/ours/new":      {false, codes.PermissionDenied, ""},
		"ws/hard":          {false, codes.PermissionDenied, ""},
		"out/f":            {false, codes.InvalidArgument, ""},
		"ws/away/f":        {false, codes.InvalidArgument, ""},
		"ws/dangles":       {true, codes.InvalidArgument, ""},
		"ws/circle":        {false, codes.InvalidArgument, ""},
		"ws/circle/f":      {false, codes.InvalidArgument, ""},
		"ws/f/below":       {false, codes.InvalidArgument, ""},
		"out/../ws/f":      {false, codes.InvalidArgument, ""},
		"ws/../../../../f": {false, codes.InvalidArgument, ""},
		"ws/\x00":          {false, codes.InvalidArgument, ""},
	} {
		at, err := roots.Enter(&acpv1.CallContext{Roots: given}, dir+"/"+path, []string{dir + "/ws/ours"}, c.write)
		if status.Code(err) != c.code || err == nil && at.GetPath() != filepath.Join(dir, c.leads) {
			t.Errorf("%q, write %t: %v, %v; want %v", path, c.write, at.GetPath(), err, c.code)
		}
	}
}

func TestResolve_RejectsContextWithoutRoots(t *testing.T) {
	for name, c := range map[string]*acpv1.CallContext{
		"none":            nil,
		"without roots":   {},
		"an empty root":   {Roots: []*acpv1.Root{{}}},
		"a relative root": {Roots: []*acpv1.Root{{Path: "/"}, {Path: "ws"}}},
	} {
		if _, err := roots.Resolve(c, "/", nil); status.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: %v", name, err)
		}
	}
	c := &acpv1.CallContext{Roots: []*acpv1.Root{{Path: "/"}}, ResolvedPath: &acpv1.ResolvedPath{Path: "/elsewhere"}}
	if _, err := roots.Enter(c, "/", nil, false); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("a path that leads elsewhere than was seen: %v", err)
	}
	if _, err := roots.Resolve(c, "relative", nil); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative path: %v", err)
	}
}
