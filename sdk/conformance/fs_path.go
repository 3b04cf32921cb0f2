package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
	pluginv1 "github.com/acphost/acphost/proto/acphost/plugin/v1"
)

func fsPathCases() []Case {
	return []Case{
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

func pathNeedsContext(ctx context.Context, e *Env) error {
	path, err := e.put("f", "secret")
	if err != nil {
		return err
	}
	noRoots := e.Context()
	noRoots.Roots = nil
	for name, c := range map[string]*acpv1.CallContext{"no context": nil, "no roots": noRoots} {
		_, err := e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: c, Path: path})
		if failed := wantRefused("a read with "+name, err, codes.InvalidArgument); failed != nil {
			return failed
		}
		_, err = e.fs().WriteTextFile(ctx, &fsv1.WriteTextFileRequest{Context: c, Path: path, Content: "x"})
		if failed := wantRefused("a write with "+name, err, codes.InvalidArgument); failed != nil {
			return failed
		}
	}
	return wantContent(path, "secret")
}

func pathMustBeAbsolute(ctx context.Context, e *Env) error {
	if _, err := e.put("f", "x"); err != nil {
		return err
	}
	for _, path := range []string{"f", "./f", "", "~/f", "../" + e.at("f")} {
		_, err := e.read(ctx, e.Context(), path)
		if failed := wantRefused(fmt.Sprintf("a read of %q", path), err, codes.InvalidArgument); failed != nil {
			return failed
		}
		if path != "" && !strings.Contains(err.Error(), "absolute") {
			return differs("the message", err.Error(), "one that says absolute")
		}
		_, err = e.write(ctx, e.Context(), path, "x")
		if failed := wantRefused(fmt.Sprintf("a write to %q", path), err, codes.InvalidArgument); failed != nil {
			return failed
		}
	}
	return nil
}

func pathMayNotLeave(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside", "ws-too/f": "outside"}); err != nil {
		return err
	}
	return e.wantAllOutside(ctx, e.at("out/f"), e.at("ws-too/f"), e.at("out/nothing"), e.Dir+"/ws/../out/f",
		e.Dir+"/ws/"+strings.Repeat("../", 40)+"etc/passwd", e.Dir+"/ws/..//../"+"nothing")
}

func linkMayNotLeave(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"ws/f": "inside", "out/f": "outside"}); err != nil {
		return err
	}
	err := errors.Join(
		os.Symlink(e.at("out/f"), e.at("ws/file")),
		os.Symlink("../out", e.at("ws/folder")),
		os.Symlink("../out/new", e.at("ws/new")),
		os.Symlink("folder/f", e.at("ws/twice")),
	)
	if err != nil {
		return err
	}
	return e.wantAllOutside(ctx, e.at("ws/file"), e.at("ws/folder/f"), e.at("ws/folder/new"), e.at("ws/new"), e.at("ws/twice"))
}

// wantAllOutside demands that reads and writes of the paths are refused, with the folder "ws" as the only root, and that
// nothing beside it changes.
func (e *Env) wantAllOutside(ctx context.Context, paths ...string) error {
	in := e.below("ws")
	for _, path := range paths {
		got, err := e.read(ctx, in, path)
		if err == nil {
			return fmt.Errorf("a read of %s returned %s", path, shown(got.GetContent()))
		}
		if failed := wantEscapes(err, path); failed != nil {
			return failed
		}
		_, err = e.write(ctx, in, path, "written")
		if failed := wantEscapes(err, path); failed != nil {
			return failed
		}
	}
	return errors.Join(wantContent(e.at("out/f"), "outside"), wantAbsent(e.at("out/new")), wantAbsent(e.at("out/nothing")))
}

func linksInsideWork(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"dir/f": "inside", "dir/sub/g": "deeper"}); err != nil {
		return err
	}
	err := errors.Join(
		os.Symlink("dir/f", e.at("relative")),
		os.Symlink(e.at("dir/f"), e.at("absolute")),
		os.Symlink(e.at("dir/sub"), e.at("sub")),
	)
	if err != nil {
		return err
	}
	for name, want := range map[string]string{"relative": "inside", "absolute": "inside", "sub/g": "deeper"} {
		got, err := e.read(ctx, e.Context(), e.at(name))
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if got.GetContent() != want {
			return differs(name, got.GetContent(), want)
		}
	}
	return nil
}

func rootMayBeALink(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"real/ws/f": "inside"}); err != nil {
		return err
	}
	if err := os.Symlink("real", e.at("alias")); err != nil {
		return err
	}
	for _, path := range []string{"alias/ws/f", "real/ws/f"} {
		if _, err := e.read(ctx, e.below("alias/ws"), e.at(path)); err != nil {
			return fmt.Errorf("the root is alias/ws, the path %s: %w", path, err)
		}
	}
	if _, err := e.write(ctx, e.below("alias/ws"), e.at("alias/ws/new"), "new"); err != nil {
		return err
	}
	return wantContent(e.at("real/ws/new"), "new")
}

func circlesAreRefused(ctx context.Context, e *Env) error {
	if err := errors.Join(os.Symlink("b", e.at("a")), os.Symlink("a", e.at("b"))); err != nil {
		return err
	}
	_, err := e.read(ctx, e.Context(), e.at("a"))
	if err == nil {
		return errors.New("a circle of links was read")
	}
	return wantRefused("a circle of links", err, codes.InvalidArgument, codes.FailedPrecondition, codes.Internal)
}

func everyRootCounts(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"one/f": "1", "two/f": "2", "three/f": "3"}); err != nil {
		return err
	}
	in := e.Context()
	in.Roots = []*acpv1.Root{{Path: e.at("one")}, {Path: e.at("two")}}
	for _, name := range []string{"one/f", "two/f"} {
		if _, err := e.read(ctx, in, e.at(name)); err != nil {
			return err
		}
	}
	_, err := e.read(ctx, in, e.at("three/f"))
	if failed := wantEscapes(err, e.at("three/f")); failed != nil {
		return failed
	}
	// The same scope with other roots: a handler may remember nothing.
	in.Roots = []*acpv1.Root{{Path: e.at("three")}}
	if _, err := e.read(ctx, in, e.at("three/f")); err != nil {
		return err
	}
	_, err = e.read(ctx, in, e.at("one/f"))
	return wantEscapes(err, e.at("one/f"))
}

func resolvedPathHolds(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"f": "one", "g": "two"}); err != nil {
		return err
	}
	in := e.Context()
	in.ResolvedPath = &acpv1.ResolvedPath{Path: e.at("f")}
	if _, err := e.read(ctx, in, e.at("f")); err != nil {
		return err
	}
	_, err := e.read(ctx, in, e.at("g"))
	if failed := wantRefused("a read of another file than was seen", err, codes.FailedPrecondition); failed != nil {
		return failed
	}
	_, err = e.write(ctx, in, e.at("g"), "written")
	if failed := wantRefused("a write to another file than was seen", err, codes.FailedPrecondition); failed != nil {
		return failed
	}
	return wantContent(e.at("g"), "two")
}

func protectedPathsAreRefused(ctx context.Context, e *Env) (err error) {
	if e.Sidecar {
		return skip("a sidecar takes no protected paths from a supervisor")
	}
	if err := e.putAll(map[string]string{"ours/policy": "rules", "f": "free"}); err != nil {
		return err
	}
	if err := errors.Join(os.Symlink("ours", e.at("alias")), os.Link(e.at("ours/policy"), e.at("hard"))); err != nil {
		return err
	}
	protected := []string{e.at("ours"), e.at("later")}
	if _, err := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{Host: &pluginv1.Host{ProtectedPaths: protected}}); err != nil {
		return err
	}
	defer func() {
		_, undone := e.plugin().Configure(ctx, &pluginv1.ConfigureRequest{})
		err = errors.Join(err, undone)
	}()
	for _, name := range []string{"ours/policy", "alias/policy", "hard", "later", "ours/new"} {
		_, err := e.read(ctx, e.Context(), e.at(name))
		if failed := wantRefused("a read of "+name, err, codes.PermissionDenied); failed != nil {
			return failed
		}
		_, err = e.write(ctx, e.Context(), e.at(name), "written")
		if failed := wantRefused("a write to "+name, err, codes.PermissionDenied); failed != nil {
			return failed
		}
		at, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.Context(), Path: e.at(name)})
		if err != nil {
			return err
		}
		if !at.GetProtected() {
			return differs("Resolve of "+name, at, "protected")
		}
	}
	if _, err := e.read(ctx, e.Context(), e.at("f")); err != nil {
		return err
	}
	return wantContent(e.at("ours/policy"), "rules")
}

func resolveAnswers(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"ws/dir/f": "x", "ws/ro/f": "x"}); err != nil {
		return err
	}
	if err := errors.Join(os.Symlink("dir", e.at("ws/link")), os.Symlink("ws", e.at("alias"))); err != nil {
		return err
	}
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
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if !proto.Equal(got, want) {
			return differs(name, got, want)
		}
	}
	return nil
}

func resolveAnswersOutside(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"ws/f": "x", "out/f": "x"}); err != nil {
		return err
	}
	if err := os.Symlink("../out", e.at("ws/link")); err != nil {
		return err
	}
	for _, name := range []string{"out/f", "out/nothing", "ws/link/f", "ws/link/nothing", "ws/../out/f"} {
		got, err := e.fs().Resolve(ctx, &fsv1.ResolveRequest{Context: e.below("ws"), Path: e.Dir + "/" + name})
		if err != nil {
			return fmt.Errorf("%s: an error, want an answer: %w", name, err)
		}
		if got.GetInsideRoots() || got.GetRoot() != "" {
			return differs(name, got, "outside")
		}
	}
	return nil
}
