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

func fsWriteCases() []Case {
	return []Case{
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

func writeIsExact(ctx context.Context, e *Env) error {
	for _, content := range []string{"one\r\ntwo", "", "héllo 🎉\u2028\n", strings.Repeat("0123456789abcde\n", 8<<16), "short"} {
		if _, err := e.write(ctx, e.Context(), e.at("f"), content); err != nil {
			return err
		}
		if err := wantContent(e.at("f"), content); err != nil {
			return err
		}
	}
	return wantNothingBut(e.Dir, "f")
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

func writeMakesFolders(ctx context.Context, e *Env) error {
	if _, err := e.write(ctx, e.Context(), e.at("a/b/c/f"), "deep"); err != nil {
		return err
	}
	return wantContent(e.at("a/b/c/f"), "deep")
}

func writeKeepsMode(ctx context.Context, e *Env) error {
	for _, mode := range []os.FileMode{0o600, 0o640, 0o755} {
		path, err := e.put("f", "old")
		if err != nil {
			return err
		}
		if err := os.Chmod(path, mode); err != nil {
			return err
		}
		if _, err := e.write(ctx, e.Context(), path, "new"); err != nil {
			return err
		}
		is, err := os.Stat(path)
		if err != nil {
			return err
		}
		if is.Mode() != mode {
			return differs("the mode", is.Mode(), mode)
		}
	}
	return nil
}

func writeFollowsLinks(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"dir/f": "old"}); err != nil {
		return err
	}
	for name, target := range map[string]string{"link": e.at("dir/f"), "dangling": "dir/new"} {
		if err := os.Symlink(target, e.at(name)); err != nil {
			return err
		}
		if _, err := e.write(ctx, e.Context(), e.at(name), "new"); err != nil {
			return err
		}
		is, err := os.Lstat(e.at(name))
		if err != nil {
			return err
		}
		if is.Mode()&os.ModeSymlink == 0 {
			return fmt.Errorf("the link %s was replaced by a file", name)
		}
	}
	return errors.Join(wantContent(e.at("dir/f"), "new"), wantContent(e.at("dir/new"), "new"))
}

func writeKeepsHardLinks(ctx context.Context, e *Env) error {
	path, err := e.put("f", "a longer old content")
	if err != nil {
		return err
	}
	if err := os.Link(path, e.at("other")); err != nil {
		return skip("this file system has no hard links: %v", err)
	}
	if _, err := e.write(ctx, e.Context(), path, "new"); err != nil {
		return err
	}
	return errors.Join(wantContent(path, "new"), wantContent(e.at("other"), "new"))
}

func writeRefusesReadOnly(ctx context.Context, e *Env) error {
	if err := e.putAll(map[string]string{"ro/f": "old", "rw/f": "old"}); err != nil {
		return err
	}
	in := e.Context()
	in.Roots = []*acpv1.Root{{Path: e.at("rw")}, {Path: e.at("ro"), ReadOnly: true}}
	if _, err := e.read(ctx, in, e.at("ro/f")); err != nil {
		return err
	}
	for _, name := range []string{"ro/f", "ro/new", "ro/new/new"} {
		_, err := e.write(ctx, in, e.at(name), "new")
		if failed := wantRefused("a write to "+name, err, codes.PermissionDenied, codes.FailedPrecondition); failed != nil {
			return failed
		}
	}
	if _, err := e.write(ctx, in, e.at("rw/f"), "new"); err != nil {
		return err
	}
	return errors.Join(wantContent(e.at("ro/f"), "old"), wantAbsent(e.at("ro/new")))
}

func writeRefusesSlash(ctx context.Context, e *Env) error {
	for _, path := range []string{e.at("new") + "/", e.at("new") + "/."} {
		_, err := e.write(ctx, e.Context(), path, "x")
		if failed := wantRefused("a write to "+path, err, codes.InvalidArgument); failed != nil {
			return failed
		}
	}
	return nil
}

func writeRefusesLongNames(ctx context.Context, e *Env) error {
	_, err := e.write(ctx, e.Context(), e.at(strings.Repeat("n", 256)), "x")
	if err == nil {
		return errors.New("a name of 256 bytes was written")
	}
	if failed := wantRefused("a name of 256 bytes", err, codes.InvalidArgument, codes.OutOfRange); failed != nil {
		return failed
	}
	// The longest name leaves no room for a temporary name made from it.
	longest := e.at(strings.Repeat("n", 255))
	if err := os.WriteFile(longest, nil, 0o644); err != nil {
		return skip("this file system's names are shorter: %v", err)
	}
	if _, err := e.write(ctx, e.Context(), longest, "x"); err != nil {
		return err
	}
	return wantContent(longest, "x")
}

func writeIsAtomic(ctx context.Context, e *Env) error {
	const size = 1 << 20
	contents := [2]string{strings.Repeat("a", size), strings.Repeat("b", size)}
	path, err := e.put("f", contents[0])
	if err != nil {
		return err
	}
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
	return errors.Join(failed, torn)
}

func writesAreSerialised(ctx context.Context, e *Env) error {
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
	if err := errors.Join(failed...); err != nil {
		return err
	}
	got, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if len(got) != size || strings.Trim(string(got), string(got[:1])) != "" {
		return errors.New("the file is a mixture of several writes")
	}
	return wantNothingBut(filepath.Dir(path), "f")
}

func writeRefusesStale(ctx context.Context, e *Env) error {
	path, err := e.put("f", "one")
	if err != nil {
		return err
	}
	read, err := e.read(ctx, e.Context(), path)
	if err != nil {
		return err
	}
	digest := read.GetResult().GetDigest()
	if digest == "" {
		return skip("the handler returns no digests")
	}
	in := e.Context()
	in.ExpectedDigest = digest
	written, err := e.write(ctx, in, path, "two")
	if err != nil {
		return fmt.Errorf("a write with the digest of the read: %w", err)
	}
	_, err = e.write(ctx, in, path, "three")
	if failed := wantRefused("a write with an old digest", err, codes.FailedPrecondition); failed != nil {
		return failed
	}
	again, err := e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: e.Context(), Path: path})
	if err != nil {
		return err
	}
	if w, r := written.GetResult().GetDigest(), again.GetResult().GetDigest(); w != "" && w != r {
		return differs("the write's digest", w, "the read's, "+r)
	}
	if err := os.Remove(path); err != nil {
		return err
	}
	_, err = e.write(ctx, in, path, "four")
	if failed := wantRefused("a write to a file that was removed since", err, codes.FailedPrecondition); failed != nil {
		return failed
	}
	return wantAbsent(path)
}
