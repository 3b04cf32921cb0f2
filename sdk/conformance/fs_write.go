package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

func fsWriteCases() []demand {
	return []demand{
		{Name: "WriteTextFile makes and replaces files", Run: writeIsExact},
		{Name: "WriteTextFile makes missing folders", Run: writeMakesFolders},
		{Name: "WriteTextFile keeps permissions", Run: writeKeepsMode},
		{Name: "WriteTextFile follows a link that stays inside", Run: writeFollowsLinks},
		{Name: "WriteTextFile keeps hard links together", Run: writeKeepsHardLinks},
		{Name: "WriteTextFile refuses a read-only root", Run: writeRefusesReadOnly},
		{Name: "WriteTextFile refuses a path that ends with a slash", Run: writeRefusesSlash},
		{Name: "WriteTextFile refuses a name that is too long", Run: writeRefusesLongNames},
		{Name: "WriteTextFile is never seen half done", Run: writeIsAtomic},
		{Name: "WriteTextFile serves writers of one file one after another", Run: writesAreSerialised},
		{Name: "WriteTextFile refuses a stale write", Run: writeRefusesStale},
	}
}

func writeIsExact(ctx context.Context, e *Env) {
	for _, content := range []string{"one\r\ntwo", "", "héllo 🎉\u2028\n", strings.Repeat("0123456789abcde\n", 8<<16), "short"} {
		must(e.write(ctx, e.Context(), e.at("f"), content))
		check(wantContent(e.at("f"), content))
	}
	check(wantNothingBut(e.Dir, "f"))
}

// wantNothingBut demands that no temporary file is left.
func wantNothingBut(dir string, names ...string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var got []string
	for _, entry := range entries {
		got = append(got, entry.Name())
	}
	if len(got) != len(names) {
		return differs("the folder", got, names)
	}
	return nil
}

func writeMakesFolders(ctx context.Context, e *Env) {
	must(e.write(ctx, e.Context(), e.at("a/b/c/f"), "deep"))
	check(wantContent(e.at("a/b/c/f"), "deep"))
}

func writeKeepsMode(ctx context.Context, e *Env) {
	for _, mode := range []os.FileMode{0o600, 0o640, 0o755} {
		path := must(e.put("f", "old"))
		check(os.Chmod(path, mode))
		must(e.write(ctx, e.Context(), path, "new"))
		is := must(os.Stat(path))
		check(same("the mode", is.Mode(), mode))
	}
}

func writeFollowsLinks(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"dir/f": "old"}))
	for name, target := range map[string]string{"link": e.at("dir/f"), "dangling": "dir/new"} {
		check(os.Symlink(target, e.at(name)))
		must(e.write(ctx, e.Context(), e.at(name), "new"))
		is := must(os.Lstat(e.at(name)))
		if is.Mode()&os.ModeSymlink == 0 {
			fail(fmt.Errorf("the link %s was replaced by a file", name))
		}
	}
	check(errors.Join(wantContent(e.at("dir/f"), "new"), wantContent(e.at("dir/new"), "new")))
}

func writeKeepsHardLinks(ctx context.Context, e *Env) {
	path := must(e.put("f", "a longer old content"))
	if err := os.Link(path, e.at("other")); err != nil {
		fail(skip("this file system has no hard links: %v", err))
	}
	must(e.write(ctx, e.Context(), path, "new"))
	check(errors.Join(wantContent(path, "new"), wantContent(e.at("other"), "new")))
}

func writeRefusesReadOnly(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ro/f": "old", "rw/f": "old"}))
	in := e.Context()
	in.Roots = []*acpv1.Root{{Path: e.at("rw")}, {Path: e.at("ro"), ReadOnly: true}}
	must(e.read(ctx, in, e.at("ro/f")))
	for _, name := range []string{"ro/f", "ro/new", "ro/new/new"} {
		_, err := e.write(ctx, in, e.at(name), "new")
		check(wantRefused("a write to "+name, err, codes.PermissionDenied, codes.FailedPrecondition))
	}
	must(e.write(ctx, in, e.at("rw/f"), "new"))
	check(errors.Join(wantContent(e.at("ro/f"), "old"), wantAbsent(e.at("ro/new"))))
}

func writeRefusesSlash(ctx context.Context, e *Env) {
	for _, path := range []string{e.at("new") + "/", e.at("new") + "/."} {
		_, err := e.write(ctx, e.Context(), path, "x")
		check(wantRefused("a write to "+path, err, codes.InvalidArgument))
	}
}

func writeRefusesLongNames(ctx context.Context, e *Env) {
	_, err := e.write(ctx, e.Context(), e.at(strings.Repeat("n", 256)), "x")
	if err == nil {
		fail(errors.New("a name of 256 bytes was written"))
	}
	check(wantRefused("a name of 256 bytes", err, codes.InvalidArgument, codes.OutOfRange))
	// The longest name leaves no room for a temporary name made from it.
	longest := e.at(strings.Repeat("n", 255))
	if err := os.WriteFile(longest, nil, 0o644); err != nil {
		fail(skip("this file system's names are shorter: %v", err))
	}
	must(e.write(ctx, e.Context(), longest, "x"))
	check(wantContent(longest, "x"))
}

func writeIsAtomic(ctx context.Context, e *Env) {
	const size = 1 << 20
	contents := [2]string{strings.Repeat("a", size), strings.Repeat("b", size)}
	path := must(e.put("f", contents[0]))
	var writer sync.WaitGroup
	var failed error
	done := make(chan struct{})
	writer.Go(func() {
		defer close(done)
		for i := range 20 {
			if _, failed = e.write(ctx, e.Context(), path, contents[i%2]); failed != nil {
				return
			}
		}
	})
	var torn error
	for open := true; open && torn == nil; {
		select {
		case <-done:
			open = false
		default:
		}
		got, err := os.ReadFile(path)
		if err != nil {
			torn = err
		} else if s := string(got); s != contents[0] && s != contents[1] {
			torn = fmt.Errorf("a reader saw %d bytes of neither the old nor the new content", len(got))
		}
	}
	writer.Wait()
	check(errors.Join(failed, torn))
}

func writesAreSerialised(ctx context.Context, e *Env) {
	const size = 1 << 16
	path := e.at("new/f")
	var all sync.WaitGroup
	failed := make([]error, 16)
	for i := range failed {
		all.Go(func() {
			_, failed[i] = e.write(ctx, e.Context(), path, strings.Repeat(string(rune('a'+i)), size))
		})
	}
	all.Wait()
	check(errors.Join(failed...))
	got := must(os.ReadFile(path))
	if len(got) != size || strings.Trim(string(got), string(got[:1])) != "" {
		fail(errors.New("the file is a mixture of several writes"))
	}
	check(wantNothingBut(filepath.Dir(path), "f"))
}

func writeRefusesStale(ctx context.Context, e *Env) {
	path := must(e.put("f", "one"))
	read := must(e.read(ctx, e.Context(), path))
	digest := read.GetResult().GetDigest()
	if digest == "" {
		fail(skip("the handler returns no digests"))
	}
	in := e.Context()
	in.ExpectedDigest = digest
	written, err := e.write(ctx, in, path, "two")
	check(named("a write with the digest of the read", err))
	_, err = e.write(ctx, in, path, "three")
	check(wantRefused("a write with an old digest", err, codes.FailedPrecondition))
	again := must(e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: e.Context(), Path: path}))
	if w, r := written.GetResult().GetDigest(), again.GetResult().GetDigest(); w != "" && w != r {
		fail(differs("the write's digest", w, "the read's, "+r))
	}
	check(os.Remove(path))
	_, err = e.write(ctx, in, path, "four")
	check(wantRefused("a write to a file that was removed since", err, codes.FailedPrecondition))
	check(wantAbsent(path))
}
