package conformance

import (
	"context"
	"fmt"
	"math"
	"os"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
)

var fsReadCases = []Case{
	{"ReadTextFile returns a file as it is", func(ctx context.Context, e *env) {
		for i, content := range []string{
			"", "\n", "a", "a\n", "one\ntwo", "one\r\ntwo\r\n", "a\rb", "\uFEFFmark\n", "héllo 世界 🎉\u2028\n", "\t\x01\x7f\n",
		} {
			path := e.put(fmt.Sprintf("f%d", i), content)
			got, err := e.read(ctx, e.context(), path)
			check(wrap(fmt.Sprintf("a file of %q", content), err))
			equal("the content", got.GetContent(), content)
		}
	}},
	{"ReadTextFile counts lines from 1 and keeps their endings", func(ctx context.Context, e *env) {
		path := e.put("f", "one\ntwo\r\n\nfour")
		for _, c := range []struct {
			line, limit *uint32
			want        string
		}{
			{nil, nil, "one\ntwo\r\n\nfour"},
			{proto.Uint32(0), nil, "one\ntwo\r\n\nfour"},
			{proto.Uint32(1), nil, "one\ntwo\r\n\nfour"},
			{proto.Uint32(2), nil, "two\r\n\nfour"},
			{nil, proto.Uint32(1), "one\n"},
			{proto.Uint32(1), proto.Uint32(2), "one\ntwo\r\n"},
			{proto.Uint32(3), proto.Uint32(1), "\n"},
			{proto.Uint32(4), proto.Uint32(1), "four"},
			{proto.Uint32(2), proto.Uint32(100), "two\r\n\nfour"},
			{proto.Uint32(2), proto.Uint32(math.MaxUint32), "two\r\n\nfour"},
			{proto.Uint32(2), proto.Uint32(0), ""},
		} {
			got, err := e.readLines(ctx, e.context(), path, c.line, c.limit)
			what := fmt.Sprintf("line %s, limit %s", optional(c.line), optional(c.limit))
			check(wrap(what, err))
			equal(what, got.GetContent(), c.want)
		}
	}},
	{"ReadTextFile past the end is empty", func(ctx context.Context, e *env) {
		for name, content := range map[string]string{"empty": "", "two lines": "one\ntwo\n"} {
			path := e.put(name, content)
			for _, line := range []uint32{3, 1000, math.MaxUint32} {
				what := fmt.Sprintf("%s, line %d", name, line)
				got, err := e.readLines(ctx, e.context(), path, &line, nil)
				check(wrap(what, err))
				equal(what, got.GetContent(), "")
			}
		}
	}},
	{"ReadTextFile reports Resource not found for a missing file", func(ctx context.Context, e *env) {
		e.link("nothing", "dangling")
		for _, name := range []string{"nothing", "no/thing", "dangling"} {
			_, err := e.read(ctx, e.context(), e.at(name))
			wantMissing(err, e.at(name))
		}
	}},
	{"ReadTextFile rejects files that are not text", func(ctx context.Context, e *env) {
		for name, content := range map[string]string{
			"a NUL": "a\x00b", "latin 1": "caf\xe9\n", "UTF-16": "\xff\xfea\x00", "a surrogate": "\xed\xa0\x80",
		} {
			path := e.put(name, content)
			_, err := e.read(ctx, e.context(), path)
			require(err != nil, "a file with %s was returned", name)
			wantErrorText("a read of a file with "+name, err, "not a text file")
		}
	}},
	{"ReadTextFile rejects folders and FIFOs and does not block", func(ctx context.Context, e *env) {
		check(os.Mkdir(e.at("folder"), 0o755))
		names := []string{"folder", ""}
		if makeFIFO(e.at("fifo")) == nil {
			names = append(names, "fifo")
		}
		for _, name := range names {
			e.wantInaccessible(ctx, e.context(), name, e.at(name), codes.InvalidArgument)
		}
	}},
	{"ReadTextFile returns a large file", func(ctx context.Context, e *env) {
		content := strings.Repeat("0123456789abcde\n", 8<<16)
		path := e.put("f", content)
		equal("the content", must(e.read(ctx, e.context(), path)).GetContent(), content)
	}},
	{"ReadTextFile returns lines of a huge file", func(ctx context.Context, e *env) {
		path := e.huge("one\ntwo\nthree\n")
		got := must(e.readLines(ctx, e.context(), path, proto.Uint32(2), proto.Uint32(2)))
		equal("lines 2 and 3", got.GetContent(), "two\nthree\n")
	}},
	{"ReadTextFile rejects reading a huge file whole and explains paging", func(ctx context.Context, e *env) {
		path := e.huge("one\n")
		_, err := e.read(ctx, e.context(), path)
		wantRejected("a whole read", err, codes.OutOfRange, codes.InvalidArgument)
		wantErrorText("a whole read", err, fmt.Sprint(hugeSize), "line", "limit")
	}},
	{"ReadTextFile answers many calls at once", func(ctx context.Context, e *env) {
		const files = 64
		for i := range files {
			e.put(fmt.Sprintf("f%d", i), strings.Repeat(fmt.Sprintf("%d\n", i), 10000))
		}
		concurrently(files, func(i int) error {
			got, err := e.read(ctx, e.context(), e.at(fmt.Sprintf("f%d", i)))
			if err == nil && !strings.HasPrefix(got.GetContent(), fmt.Sprintf("%d\n", i)) {
				err = differs("file "+fmt.Sprint(i), got.GetContent(), "its own content")
			}
			return err
		})
	}},
	{"ReadTextFile ends when it is cancelled, and only that call does", func(ctx context.Context, e *env) {
		path := e.huge("one\n")
		small := e.put("small", "small\n")
		cancelled, cancel := context.WithCancel(ctx)
		defer cancel()
		ended := begin(func() error {
			_, err := e.readLines(cancelled, e.context(), path, proto.Uint32(3), proto.Uint32(1))
			return err
		})
		must(e.read(ctx, e.context(), small))
		cancel()
		wantCode("the cancelled read", <-ended, codes.Canceled, codes.OK)
		equal("the content", must(e.read(ctx, e.context(), small)).GetContent(), "small\n")
	}},
}

func optional(n *uint32) string {
	if n == nil {
		return "absent"
	}
	return fmt.Sprint(*n)
}

// hugeSize is a size, in bytes, that no handler may return whole.
const hugeSize = 2 << 30

// huge makes a file with some lines at its beginning and a hole up to hugeSize.
func (e *env) huge(content string) (path string) {
	path = e.put("huge", content)
	err := os.Truncate(path, hugeSize)
	skipIf(err != nil, "this file system has no sparse files: %v", err)
	return path
}
