package conformance

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"
	"sync"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

func fsReadCases() []demand {
	return []demand{
		{Name: "ReadTextFile returns a file as it is", Run: readIsExact},
		{Name: "ReadTextFile counts lines from 1 and keeps their endings", Run: readCountsLines},
		{Name: "ReadTextFile past the end is empty", Run: readPastTheEnd},
		{Name: "ReadTextFile says Resource not found of a missing file", Run: readMissing},
		{Name: "ReadTextFile refuses what is not text", Run: readNotText},
		{Name: "ReadTextFile refuses folders and FIFOs and does not block", Run: readSpecial},
		{Name: "ReadTextFile returns a large file", Run: readLarge},
		{Name: "ReadTextFile returns lines of a huge file", Run: readHugeInPart},
		{Name: "ReadTextFile refuses a huge file whole and says how to page", Run: readHugeWhole},
		{Name: "ReadTextFile answers many calls at once", Run: readMany},
		{Name: "ReadTextFile ends when it is cancelled, and only that call does", Run: readCancelled},
	}
}

func readIsExact(ctx context.Context, e *Env) {
	for i, content := range []string{
		"", "\n", "a", "a\n", "one\ntwo", "one\r\ntwo\r\n", "a\rb", "\uFEFFmark\n", "héllo 世界 🎉\u2028\n", "\t\x01\x7f\n",
	} {
		path := must(e.put(fmt.Sprintf("f%d", i), content))
		got, err := e.read(ctx, e.Context(), path)
		check(named(fmt.Sprintf("a file of %q", content), err))
		check(same("the content", got.GetContent(), content))
	}
}

func readCountsLines(ctx context.Context, e *Env) {
	path := must(e.put("f", "one\ntwo\r\n\nfour"))
	number := func(n uint32) *uint32 { return &n }
	for _, c := range []struct {
		line, limit *uint32
		want        string
	}{
		{nil, nil, "one\ntwo\r\n\nfour"},
		{number(0), nil, "one\ntwo\r\n\nfour"},
		{number(1), nil, "one\ntwo\r\n\nfour"},
		{number(2), nil, "two\r\n\nfour"},
		{nil, number(1), "one\n"},
		{number(1), number(2), "one\ntwo\r\n"},
		{number(3), number(1), "\n"},
		{number(4), number(1), "four"},
		{number(2), number(100), "two\r\n\nfour"},
		{number(2), number(math.MaxUint32), "two\r\n\nfour"},
		{number(2), number(0), ""},
	} {
		got, err := e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{
			Context: e.Context(), Path: path, Line: c.line, Limit: c.limit,
		})
		what := fmt.Sprintf("line %s, limit %s", optional(c.line), optional(c.limit))
		check(named(what, err))
		check(same(what, got.GetContent(), c.want))
	}
}

func optional(n *uint32) string {
	if n == nil {
		return "absent"
	}
	return fmt.Sprint(*n)
}

func readPastTheEnd(ctx context.Context, e *Env) {
	for name, content := range map[string]string{"empty": "", "two lines": "one\ntwo\n"} {
		path := must(e.put(name, content))
		for _, line := range []uint32{3, 1000, math.MaxUint32} {
			got, err := e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: e.Context(), Path: path, Line: &line})
			check(named(fmt.Sprintf("%s, line %d", name, line), err))
			check(same(fmt.Sprintf("%s, line %d", name, line), got.GetContent(), ""))
		}
	}
}

func readMissing(ctx context.Context, e *Env) {
	check(os.Symlink("nothing", e.at("dangling")))
	for _, name := range []string{"nothing", "no/thing", "dangling"} {
		_, err := e.read(ctx, e.Context(), e.at(name))
		check(wantMissing(err, e.at(name)))
	}
}

func readNotText(ctx context.Context, e *Env) {
	for name, content := range map[string]string{
		"a NUL": "a\x00b", "latin 1": "caf\xe9\n", "UTF-16": "\xff\xfea\x00", "a surrogate": "\xed\xa0\x80",
	} {
		path := must(e.put(name, content))
		_, err := e.read(ctx, e.Context(), path)
		if err == nil {
			fail(fmt.Errorf("a file with %s was returned", name))
		}
		if message := status.Convert(err).Message(); !strings.Contains(message, "not a text file") {
			fail(differs("the message for a file with "+name, message, `one that says "not a text file"`))
		}
	}
}

func readSpecial(ctx context.Context, e *Env) {
	check(os.Mkdir(e.at("folder"), 0o755))
	names := []string{"folder", ""}
	if makeFIFO(e.at("fifo")) == nil {
		names = append(names, "fifo")
	}
	for _, name := range names {
		e.wantUntouchable(ctx, e.Context(), name, e.at(name), codes.InvalidArgument)
	}
}

func readLarge(ctx context.Context, e *Env) {
	content := strings.Repeat("0123456789abcde\n", 8<<16)
	path := must(e.put("f", content))
	got := must(e.read(ctx, e.Context(), path))
	check(same("the content", got.GetContent(), content))
}

// hugeSize is more than any handler may return whole.
const hugeSize = 2 << 30

// huge makes a file with some lines at its beginning and a hole up to hugeSize.
func (e *Env) huge(content string) (path string, err error) {
	if path, err = e.put("huge", content); err != nil {
		return "", err
	}
	if err := os.Truncate(path, hugeSize); err != nil {
		return "", skip("this file system has no sparse files: %v", err)
	}
	return path, nil
}

func readHugeInPart(ctx context.Context, e *Env) {
	path := must(e.huge("one\ntwo\nthree\n"))
	line, limit := uint32(2), uint32(2)
	got := must(e.fs().ReadTextFile(ctx, &fsv1.ReadTextFileRequest{Context: e.Context(), Path: path, Line: &line, Limit: &limit}))
	check(same("lines 2 and 3", got.GetContent(), "two\nthree\n"))
}

func readHugeWhole(ctx context.Context, e *Env) {
	path := must(e.huge("one\n"))
	_, err := e.read(ctx, e.Context(), path)
	check(wantRefused("a whole read", err, codes.OutOfRange, codes.InvalidArgument))
	for _, word := range []string{fmt.Sprint(hugeSize), "line", "limit"} {
		if message := status.Convert(err).Message(); !strings.Contains(message, word) {
			fail(differs("the message", message, "one that holds "+word))
		}
	}
}

func readMany(ctx context.Context, e *Env) {
	var all sync.WaitGroup
	failed := make(chan error, 64)
	for i := range 64 {
		path := must(e.put(fmt.Sprintf("f%d", i), strings.Repeat(fmt.Sprintf("%d\n", i), 10000)))
		all.Go(func() {
			got, err := e.read(ctx, e.Context(), path)
			if err != nil {
				failed <- err
			} else if !strings.HasPrefix(got.GetContent(), fmt.Sprintf("%d\n", i)) {
				failed <- differs("file "+fmt.Sprint(i), got.GetContent(), "its own content")
			}
		})
	}
	all.Wait()
	select {
	case err := <-failed:
		fail(err)
	default:
		return
	}
}

func readCancelled(ctx context.Context, e *Env) {
	path := must(e.huge("one\n"))
	cancelled, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		line, limit := uint32(3), uint32(1)
		_, err := e.fs().ReadTextFile(cancelled, &fsv1.ReadTextFileRequest{Context: e.Context(), Path: path, Line: &line, Limit: &limit})
		ended <- err
	}()
	small, err := e.put("small", "small\n")
	if err == nil {
		_, err = e.read(ctx, e.Context(), small)
	}
	cancel()
	check(wantCode("the cancelled read", <-ended, codes.Canceled, codes.OK))
	check(err)
	got, err := e.read(ctx, e.Context(), small)
	if err == nil && got.GetContent() != "small\n" {
		err = differs("the content", got.GetContent(), "small\n")
	}
	check(err)
}
