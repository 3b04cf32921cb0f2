package conformance

import (
	"context"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

var fsPathCases = []Case{
	{"a call without context or roots is rejected", func(ctx context.Context, e *env) {
		path := e.put("f", "secret")
		noRoots := e.context()
		noRoots.Roots = nil
		for name, c := range map[string]*acpv1.CallContext{"no context": nil, "no roots": noRoots} {
			e.wantInaccessible(ctx, c, "a file with "+name, path, codes.InvalidArgument)
		}
		wantContent(path, "secret")
	}},
	{"a path must be absolute", func(ctx context.Context, e *env) {
		e.put("f", "x")
		for _, path := range []string{"f", "./f", "", "~/f", "../" + e.at("f")} {
			_, err := e.read(ctx, e.context(), path)
			wantRejected(fmt.Sprintf("a read of %q", path), err, codes.InvalidArgument)
			if path != "" {
				wantErrorText("a read of a relative path", err, "absolute")
			}
			_, err = e.write(ctx, e.context(), path, "x")
			wantRejected(fmt.Sprintf("a write to %q", path), err, codes.InvalidArgument)
		}
	}},
	{"a path that leaves the roots is rejected", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside", "ws-too/f": "outside"})
		e.wantAllOutside(ctx, e.at("out/f"), e.at("ws-too/f"), e.at("out/nothing"), e.dir+"/ws/../out/f",
			e.dir+"/ws/"+strings.Repeat("../", 40)+"etc/passwd", e.dir+"/ws/..//../"+"nothing")
	}},
	{"a link that leaves the roots is rejected", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside"})
		e.link(e.at("out/f"), "ws/file")
		e.link("../out", "ws/folder")
		e.link("../out/new", "ws/new")
		e.link("folder/f", "ws/twice")
		e.wantAllOutside(ctx, e.at("ws/file"), e.at("ws/folder/f"), e.at("ws/folder/new"), e.at("ws/new"), e.at("ws/twice"))
	}},
	{"links inside the roots work, absolute ones too", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"dir/f": "inside", "dir/sub/g": "deeper"})
		e.link("dir/f", "relative")
		e.link(e.at("dir/f"), "absolute")
		e.link(e.at("dir/sub"), "sub")
		for name, want := range map[string]string{"relative": "inside", "absolute": "inside", "sub/g": "deeper"} {
			got, err := e.read(ctx, e.context(), e.at(name))
			check(wrap(name, err))
			equal(name, got.GetContent(), want)
		}
	}},
	{"a link in a root's own path works", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"real/ws/f": "inside"})
		e.link("real", "alias")
		for _, path := range []string{"alias/ws/f", "real/ws/f"} {
			_, err := e.read(ctx, e.below("alias/ws"), e.at(path))
			check(wrap("the root is alias/ws, the path "+path, err))
		}
		must(e.write(ctx, e.below("alias/ws"), e.at("alias/ws/new"), "new"))
		wantContent(e.at("real/ws/new"), "new")
	}},
	{"a loop of links is rejected", func(ctx context.Context, e *env) {
		e.link("b", "a")
		e.link("a", "b")
		_, err := e.read(ctx, e.context(), e.at("a"))
		wantRejected("a circle of links", err, codes.InvalidArgument, codes.FailedPrecondition, codes.Internal)
	}},
	{"a call may use all its roots, and no others", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"one/f": "1", "two/f": "2", "three/f": "3"})
		in := e.context()
		in.Roots = []*acpv1.Root{{Path: e.at("one")}, {Path: e.at("two")}}
		for _, name := range []string{"one/f", "two/f"} {
			must(e.read(ctx, in, e.at(name)))
		}
		_, err := e.read(ctx, in, e.at("three/f"))
		wantEscapes(err, e.at("three/f"))
		// The same scope with other roots: a handler must not cache roots.
		in.Roots = []*acpv1.Root{{Path: e.at("three")}}
		must(e.read(ctx, in, e.at("three/f")))
		_, err = e.read(ctx, in, e.at("one/f"))
		wantEscapes(err, e.at("one/f"))
	}},
	{"a path with another target than was resolved before is rejected", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"f": "one", "g": "two"})
		in := e.context()
		in.ResolvedPath = &acpv1.ResolvedPath{Path: e.at("f")}
		must(e.read(ctx, in, e.at("f")))
		e.wantInaccessible(ctx, in, "another file than was seen", e.at("g"), codes.FailedPrecondition)
		wantContent(e.at("g"), "two")
	}},
	{"an allowed file outside the roots is opened exactly, or rejected", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside", "out/g": "another"})
		e.link("../out/g", "ws/elsewhere")
		e.link("g", "out/swapped")
		e.link("out", "parent")
		allowing := func(name string) *acpv1.CallContext {
			in := e.below("ws")
			in.AllowedPath, in.ResolvedPath = e.at(name), &acpv1.ResolvedPath{Path: e.at(name)}
			return in
		}
		if got, err := e.read(ctx, allowing("out/f"), e.at("out/f")); err == nil {
			equal("the file that was allowed", got.GetContent(), "outside")
			must(e.write(ctx, allowing("out/f"), e.at("out/f"), "written"))
			wantContent(e.at("out/f"), "written")
		} else {
			wantEscapes(err, e.at("out/f"))
			_, err = e.write(ctx, allowing("out/f"), e.at("out/f"), "written")
			wantEscapes(err, e.at("out/f"))
			wantContent(e.at("out/f"), "outside")
		}
		held := string(must(os.ReadFile(e.at("out/f"))))
		for _, c := range []struct{ what, path, allowed string }{
			{"another file than was allowed", "out/g", "out/f"},
			{"a link that leads elsewhere than was allowed", "ws/elsewhere", "out/f"},
			{"a link in place of the file that was allowed", "out/swapped", "out/swapped"},
			{"a file behind a link in place of a folder", "parent/f", "parent/f"},
			{"a folder that was allowed", "out", "out"},
			{"a file in a folder that was allowed", "out/f", "out"},
		} {
			for _, path := range []string{e.at(c.path), e.dir + "/ws/../" + c.path} {
				_, err := e.read(ctx, allowing(c.allowed), path)
				wantRejected("a read of "+c.what, err, codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied)
				_, err = e.write(ctx, allowing(c.allowed), path, "written, and must not be")
				wantRejected("a write to "+c.what, err, codes.InvalidArgument, codes.FailedPrecondition, codes.PermissionDenied)
			}
		}
		wantContent(e.at("out/g"), "another")
		wantContent(e.at("out/f"), held)
		got, err := e.read(ctx, e.below("ws"), e.at("out/f"))
		require(err != nil, "a call that allows nothing read %s after one that did", display(got.GetContent()))
		wantEscapes(err, e.at("out/f"))
	}},
	{"protected paths are rejected", func(ctx context.Context, e *env) {
		skipIf(e.Sidecar, "a sidecar takes no protected paths from a supervisor")
		e.putAll(map[string]string{"ours/policy": "rules", "f": "free"})
		e.link("ours", "alias")
		check(os.Link(e.at("ours/policy"), e.at("hard")))
		protected := []string{e.at("ours"), e.at("later")}
		must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: protected}}))
		defer func() { must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{})) }()
		for _, name := range []string{"ours/policy", "alias/policy", "hard", "later", "ours/new"} {
			e.wantInaccessible(ctx, e.context(), name, e.at(name), codes.PermissionDenied)
			allowed := e.below("elsewhere")
			allowed.AllowedPath = e.at(name)
			_, err := e.write(ctx, allowed, e.at(name), "written")
			wantRejected("a write to "+name+", which the context allows", err, codes.PermissionDenied, codes.InvalidArgument, codes.FailedPrecondition)
			at := must(e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.context(), Path: e.at(name)}))
			expect(at.GetProtected(), "Resolve of "+name, at, "protected")
		}
		must(e.read(ctx, e.context(), e.at("f")))
		wantContent(e.at("ours/policy"), "rules")
	}},
	{"Resolve returns the target of a path", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/dir/f": "x", "ws/ro/f": "x"})
		e.link("dir", "ws/link")
		e.link("ws", "alias")
		in := e.context()
		in.Roots = []*acpv1.Root{{Path: e.at("alias")}, {Path: e.at("alias/ro"), ReadOnly: true}}
		for name, want := range map[string]*fsv1.ResolveResponse{
			"alias/dir/f":       {Path: e.at("ws/dir/f"), Exists: true, InsideRoots: true, Root: e.at("alias")},
			"alias/link/f":      {Path: e.at("ws/dir/f"), Exists: true, InsideRoots: true, Root: e.at("alias")},
			"alias/link/no/f":   {Path: e.at("ws/dir/no/f"), InsideRoots: true, Root: e.at("alias")},
			"alias/ro/f":        {Path: e.at("ws/ro/f"), Exists: true, InsideRoots: true, Root: e.at("alias/ro"), ReadOnly: true},
			"alias/dir/../ro/x": {Path: e.at("ws/ro/x"), InsideRoots: true, Root: e.at("alias/ro"), ReadOnly: true},
		} {
			got, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: in, Path: e.dir + "/" + name})
			check(wrap(name, err))
			equalMessages(name, got, want)
		}
	}},
	{"Resolve answers for paths that are outside or missing", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/f": "x", "out/f": "x"})
		e.link("../out", "ws/link")
		for _, name := range []string{"out/f", "out/nothing", "ws/link/f", "ws/link/nothing", "ws/../out/f"} {
			got, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.below("ws"), Path: e.dir + "/" + name})
			check(wrap(fmt.Sprintf("%s: an error, want an answer", name), err))
			expect(!got.GetInsideRoots() && got.GetRoot() == "", name, got, "outside")
		}
	}},
}

// wantAllOutside requires that reads and writes of the paths are rejected, with the folder "ws" as the only root, and
// that no file outside of it changes.
func (e *env) wantAllOutside(ctx context.Context, paths ...string) {
	in := e.below("ws")
	for _, path := range paths {
		got, err := e.read(ctx, in, path)
		require(err != nil, "a read of %s returned %s", path, display(got.GetContent()))
		wantEscapes(err, path)
		_, err = e.write(ctx, in, path, "written")
		wantEscapes(err, path)
	}
	wantContent(e.at("out/f"), "outside")
	wantAbsent(e.at("out/new"))
	wantAbsent(e.at("out/nothing"))
}
