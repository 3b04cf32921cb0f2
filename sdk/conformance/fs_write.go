package conformance

import (
	"context"
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
)

var fsWriteCases = []Case{
	{"WriteTextFile makes and replaces files", func(ctx context.Context, e *env) {
		for _, content := range []string{"one\r\ntwo", "", "héllo 🎉\u2028\n", strings.Repeat("0123456789abcde\n", 8<<16), "short"} {
			must(e.write(ctx, e.context(), e.at("f"), content))
			wantContent(e.at("f"), content)
		}
		wantOnlyFiles(e.dir, "f")
	}},
	{"WriteTextFile keeps the form that a read reports", func(ctx context.Context, e *env) {
		for _, old := range []string{"one\r\ntwo\r\n", "\ufeffone\n", "\ufeffone\r\n", "one\r\ntwo\n", "one\ntwo\n", "one"} {
			path := e.put("f", old)
			kept := must(e.read(ctx, e.context(), path)).GetResult().GetKept()
			for content, want := range map[string]string{
				"1\n2\n": inForm(kept, "1\n", "2\n"), "1\r\n2\n": inForm(kept, "1\r\n", "2\n"), "\ufeff1\r\n": "\ufeff1\r\n", "": "",
			} {
				e.put("f", old)
				written := must(e.write(ctx, e.context(), path, content)).GetResult().GetDigest()
				wantContent(path, want)
				read := must(e.read(ctx, e.context(), path)).GetResult().GetDigest()
				expect(written == "" || written == read, "the write's digest", written, "that of what was written, "+read)
			}
		}
	}},
	{"WriteTextFile makes missing folders", func(ctx context.Context, e *env) {
		must(e.write(ctx, e.context(), e.at("a/b/c/f"), "deep"))
		wantContent(e.at("a/b/c/f"), "deep")
	}},
	{"WriteTextFile keeps permissions", func(ctx context.Context, e *env) {
		for _, mode := range []os.FileMode{0o600, 0o640, 0o755} {
			path := e.put("f", "old")
			check(os.Chmod(path, mode))
			must(e.write(ctx, e.context(), path, "new"))
			equal("the mode", must(os.Stat(path)).Mode(), mode)
		}
	}},
	{"WriteTextFile follows a link that stays inside", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"dir/f": "old"})
		for name, target := range map[string]string{"link": e.at("dir/f"), "dangling": "dir/new"} {
			e.link(target, name)
			must(e.write(ctx, e.context(), e.at(name), "new"))
			require(must(os.Lstat(e.at(name))).Mode()&os.ModeSymlink != 0, "the link %s was replaced by a file", name)
		}
		wantContent(e.at("dir/f"), "new")
		wantContent(e.at("dir/new"), "new")
	}},
	{"WriteTextFile keeps hard links together", func(ctx context.Context, e *env) {
		path := e.put("f", "a longer old content")
		err := os.Link(path, e.at("other"))
		skipIf(err != nil, "this file system has no hard links: %v", err)
		must(e.write(ctx, e.context(), path, "new"))
		wantContent(path, "new")
		wantContent(e.at("other"), "new")
	}},
	{"WriteTextFile rejects a read-only root", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ro/f": "old", "rw/f": "old"})
		in := e.context()
		in.Roots = []*acpv1.Root{{Path: e.at("rw")}, {Path: e.at("ro"), ReadOnly: true}}
		must(e.read(ctx, in, e.at("ro/f")))
		for _, name := range []string{"ro/f", "ro/new", "ro/new/new"} {
			_, err := e.write(ctx, in, e.at(name), "new")
			wantRejected("a write to "+name, err, codes.PermissionDenied, codes.FailedPrecondition)
		}
		must(e.write(ctx, in, e.at("rw/f"), "new"))
		wantContent(e.at("ro/f"), "old")
		wantAbsent(e.at("ro/new"))
	}},
	{"WriteTextFile rejects a path that ends with a slash", func(ctx context.Context, e *env) {
		for _, path := range []string{e.at("new") + "/", e.at("new") + "/."} {
			_, err := e.write(ctx, e.context(), path, "x")
			wantRejected("a write to "+path, err, codes.InvalidArgument)
		}
	}},
	{"WriteTextFile rejects a name that is too long", func(ctx context.Context, e *env) {
		_, err := e.write(ctx, e.context(), e.at(strings.Repeat("n", 256)), "x")
		wantRejected("a name of 256 bytes", err, codes.InvalidArgument, codes.OutOfRange)
		// The longest name leaves no room for a temporary name that contains it.
		longest := e.at(strings.Repeat("n", 255))
		err = os.WriteFile(longest, nil, 0o644)
		skipIf(err != nil, "this file system's names are shorter: %v", err)
		must(e.write(ctx, e.context(), longest, "x"))
		wantContent(longest, "x")
	}},
	{"WriteTextFile is atomic", func(ctx context.Context, e *env) {
		const size = 1 << 20
		contents := [2]string{strings.Repeat("a", size), strings.Repeat("b", size)}
		path := e.put("f", contents[0])
		writer := begin(func() (err error) {
			for i := 0; i < 20 && err == nil; i++ {
				_, err = e.write(ctx, e.context(), path, contents[i%2])
			}
			return err
		})
		e.onCleanup(func() { <-writer }) //nolint:errcheck // only its end matters
		for open := true; open; {
			select {
			case err := <-writer:
				check(err)
				open = false
			default:
			}
			got := string(must(os.ReadFile(path)))
			require(got == contents[0] || got == contents[1],
				"a reader saw %d bytes of neither the old nor the new content", len(got))
		}
	}},
	{"WriteTextFile serializes writes to one file", func(ctx context.Context, e *env) {
		const size = 1 << 16
		path := e.at("new/f")
		concurrently(16, func(i int) error {
			_, err := e.write(ctx, e.context(), path, strings.Repeat(string(rune('a'+i)), size))
			return err
		})
		got := string(must(os.ReadFile(path)))
		require(len(got) == size && strings.Trim(got, got[:1]) == "", "the file is a mixture of several writes")
		wantOnlyFiles(filepath.Dir(path), "f")
	}},
	{"WriteTextFile rejects a stale write", func(ctx context.Context, e *env) {
		path := e.put("f", "one")
		read := must(e.read(ctx, e.context(), path))
		digest := read.GetResult().GetDigest()
		skipIf(digest == "", "the handler returns no digests")
		in := e.context()
		in.ExpectedDigest = digest
		written, err := e.write(ctx, in, path, "two")
		check(wrap("a write with the digest of the read", err))
		_, err = e.write(ctx, in, path, "three")
		wantRejected("a write with an old digest", err, codes.FailedPrecondition)
		again := must(e.read(ctx, e.context(), path))
		w, r := written.GetResult().GetDigest(), again.GetResult().GetDigest()
		expect(w == "" || w == r, "the write's digest", w, "the read's, "+r)
		check(os.Remove(path))
		_, err = e.write(ctx, in, path, "four")
		wantRejected("a write to a file that was removed since", err, codes.FailedPrecondition)
		wantAbsent(path)
	}},
}

// inForm returns lines as a write that keeps a form writes them.
func inForm(kept *acpv1.TextForm, lines ...string) string {
	text := strings.Join(lines, "")
	if kept.GetCrlf() {
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	}
	if kept.GetByteOrderMark() {
		text = "\ufeff" + text
	}
	return text
}

// wantOnlyFiles requires that no temporary file is left.
func wantOnlyFiles(dir string, names ...string) {
	entries := must(os.ReadDir(dir))
	expect(len(entries) == len(names), "the folder", entries, names)
}
