package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func fsPathCases() []demand {
	return []demand{
		{Name: "a call without context or roots is refused", Run: pathNeedsContext},
		{Name: "a path must be absolute", Run: pathMustBeAbsolute},
		{Name: "a path that leaves the roots is refused", Run: pathMayNotLeave},
		{Name: "a link that leaves the roots is refused", Run: linkMayNotLeave},
		{Name: "links inside the roots work, absolute ones too", Run: linksInsideWork},
		{Name: "a link in a root's own path works", Run: rootMayBeALink},
		{Name: "links in a circle are refused", Run: circlesAreRefused},
		{Name: "every root counts, and a call's roots alone", Run: everyRootCounts},
		{Name: "a path that leads elsewhere than the gate saw is refused", Run: resolvedPathHolds},
		{Name: "protected paths are refused", Run: protectedPathsAreRefused},
		{Name: "Resolve says where a path leads", Run: resolveAnswers},
		{Name: "Resolve answers for what is outside or missing", Run: resolveAnswersOutside},
	}
}

func pathNeedsContext(ctx context.Context, e *Env) {
	path := must(e.put("f", "secret"))
	noRoots := e.Context()
	noRoots.Roots = nil
	for name, c := range map[string]*acpv1.CallContext{"no context": nil, "no roots": noRoots} {
		e.wantUntouchable(ctx, c, "a file with "+name, path, codes.InvalidArgument)
	}
	check(wantContent(path, "secret"))
}

func pathMustBeAbsolute(ctx context.Context, e *Env) {
	must(e.put("f", "x"))
	for _, path := range []string{"f", "./f", "", "~/f", "../" + e.at("f")} {
		_, err := e.read(ctx, e.Context(), path)
		check(wantRefused(fmt.Sprintf("a read of %q", path), err, codes.InvalidArgument))
		if path != "" && !strings.Contains(err.Error(), "absolute") {
			fail(differs("the message", err.Error(), "one that says absolute"))
		}
		_, err = e.write(ctx, e.Context(), path, "x")
		check(wantRefused(fmt.Sprintf("a write to %q", path), err, codes.InvalidArgument))
	}
}

func pathMayNotLeave(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside", "ws-too/f": "outside"}))
	e.wantAllOutside(ctx, e.at("out/f"), e.at("ws-too/f"), e.at("out/nothing"), e.Dir+"/ws/../out/f",
		e.Dir+"/ws/"+strings.Repeat("../", 40)+"etc/passwd", e.Dir+"/ws/..//../"+"nothing")
}

func linkMayNotLeave(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside"}))
	check(errors.Join(
		os.Symlink(e.at("out/f"), e.at("ws/file")),
		os.Symlink("../out", e.at("ws/folder")),
		os.Symlink("../out/new", e.at("ws/new")),
		os.Symlink("folder/f", e.at("ws/twice")),
	))
	e.wantAllOutside(ctx, e.at("ws/file"), e.at("ws/folder/f"), e.at("ws/folder/new"), e.at("ws/new"), e.at("ws/twice"))
}

// wantAllOutside demands that reads and writes of the paths are refused, with the folder "ws" as the only root, and that
// nothing beside it changes.
func (e *Env) wantAllOutside(ctx context.Context, paths ...string) {
	in := e.below("ws")
	for _, path := range paths {
		got, err := e.read(ctx, in, path)
		if err == nil {
			fail(fmt.Errorf("a read of %s returned %s", path, shown(got.GetContent())))
		}
		check(wantEscapes(err, path))
		_, err = e.write(ctx, in, path, "written")
		check(wantEscapes(err, path))
	}
	check(errors.Join(wantContent(e.at("out/f"), "outside"), wantAbsent(e.at("out/new")), wantAbsent(e.at("out/nothing"))))
}

func linksInsideWork(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"dir/f": "inside", "dir/sub/g": "deeper"}))
	check(errors.Join(
		os.Symlink("dir/f", e.at("relative")),
		os.Symlink(e.at("dir/f"), e.at("absolute")),
		os.Symlink(e.at("dir/sub"), e.at("sub")),
	))
	for name, want := range map[string]string{"relative": "inside", "absolute": "inside", "sub/g": "deeper"} {
		got, err := e.read(ctx, e.Context(), e.at(name))
		check(named(name, err))
		check(same(name, got.GetContent(), want))
	}
}

func rootMayBeALink(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"real/ws/f": "inside"}))
	check(os.Symlink("real", e.at("alias")))
	for _, path := range []string{"alias/ws/f", "real/ws/f"} {
		if _, err := e.read(ctx, e.below("alias/ws"), e.at(path)); err != nil {
			fail(fmt.Errorf("the root is alias/ws, the path %s: %w", path, err))
		}
	}
	must(e.write(ctx, e.below("alias/ws"), e.at("alias/ws/new"), "new"))
	check(wantContent(e.at("real/ws/new"), "new"))
}

func circlesAreRefused(ctx context.Context, e *Env) {
	check(errors.Join(os.Symlink("b", e.at("a")), os.Symlink("a", e.at("b"))))
	_, err := e.read(ctx, e.Context(), e.at("a"))
	if err == nil {
		fail(errors.New("a circle of links was read"))
	}
	check(wantRefused("a circle of links", err, codes.InvalidArgument, codes.FailedPrecondition, codes.Internal))
}

func everyRootCounts(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"one/f": "1", "two/f": "2", "three/f": "3"}))
	in := e.Context()
	in.Roots = []*acpv1.Root{{Path: e.at("one")}, {Path: e.at("two")}}
	for _, name := range []string{"one/f", "two/f"} {
		must(e.read(ctx, in, e.at(name)))
	}
	_, err := e.read(ctx, in, e.at("three/f"))
	check(wantEscapes(err, e.at("three/f")))
	// The same scope with other roots: a handler may remember nothing.
	in.Roots = []*acpv1.Root{{Path: e.at("three")}}
	must(e.read(ctx, in, e.at("three/f")))
	_, err = e.read(ctx, in, e.at("one/f"))
	check(wantEscapes(err, e.at("one/f")))
}

func resolvedPathHolds(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"f": "one", "g": "two"}))
	in := e.Context()
	in.ResolvedPath = &acpv1.ResolvedPath{Path: e.at("f")}
	must(e.read(ctx, in, e.at("f")))
	e.wantUntouchable(ctx, in, "another file than was seen", e.at("g"), codes.FailedPrecondition)
	check(wantContent(e.at("g"), "two"))
}

func protectedPathsAreRefused(ctx context.Context, e *Env) {
	if e.Sidecar {
		fail(skip("a sidecar takes no protected paths from a supervisor"))
	}
	check(e.putAll(map[string]string{"ours/policy": "rules", "f": "free"}))
	check(errors.Join(os.Symlink("ours", e.at("alias")), os.Link(e.at("ours/policy"), e.at("hard"))))
	protected := []string{e.at("ours"), e.at("later")}
	must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: protected}}))
	defer func() { must(e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{})) }()
	for _, name := range []string{"ours/policy", "alias/policy", "hard", "later", "ours/new"} {
		e.wantUntouchable(ctx, e.Context(), name, e.at(name), codes.PermissionDenied)
		at := must(e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.Context(), Path: e.at(name)}))
		if !at.GetProtected() {
			fail(differs("Resolve of "+name, at, "protected"))
		}
	}
	must(e.read(ctx, e.Context(), e.at("f")))
	check(wantContent(e.at("ours/policy"), "rules"))
}

func resolveAnswers(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ws/dir/f": "x", "ws/ro/f": "x"}))
	check(errors.Join(os.Symlink("dir", e.at("ws/link")), os.Symlink("ws", e.at("alias"))))
	in := e.Context()
	in.Roots = []*acpv1.Root{{Path: e.at("alias")}, {Path: e.at("alias/ro"), ReadOnly: true}}
	for name, want := range map[string]*fsv1.ResolveResponse{
		"alias/dir/f":       {Path: e.at("ws/dir/f"), Exists: true, InsideRoots: true, Root: e.at("alias")},
		"alias/link/f":      {Path: e.at("ws/dir/f"), Exists: true, InsideRoots: true, Root: e.at("alias")},
		"alias/link/no/f":   {Path: e.at("ws/dir/no/f"), InsideRoots: true, Root: e.at("alias")},
		"alias/ro/f":        {Path: e.at("ws/ro/f"), Exists: true, InsideRoots: true, Root: e.at("alias/ro"), ReadOnly: true},
		"alias/dir/../ro/x": {Path: e.at("ws/ro/x"), InsideRoots: true, Root: e.at("alias/ro"), ReadOnly: true},
	} {
		got, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: in, Path: e.Dir + "/" + name})
		check(named(name, err))
		check(alike(name, got, want))
	}
}

func resolveAnswersOutside(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ws/f": "x", "out/f": "x"}))
	check(os.Symlink("../out", e.at("ws/link")))
	for _, name := range []string{"out/f", "out/nothing", "ws/link/f", "ws/link/nothing", "ws/../out/f"} {
		got, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.below("ws"), Path: e.Dir + "/" + name})
		check(named(fmt.Sprintf("%s: an error, want an answer", name), err))
		if got.GetInsideRoots() || got.GetRoot() != "" {
			fail(differs(name, got, "outside"))
		}
	}
}
