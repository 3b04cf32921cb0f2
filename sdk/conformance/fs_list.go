package conformance

import (
	"context"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

var fsListCases = []Case{
	{"ListDirectory returns entries in order", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"b": "12345", "a/f": "", "B": "", ".hidden": "1"})
		e.link("b", "link")
		want := []*fsv1.DirectoryEntry{
			{Name: ".hidden", Type: "file", Size: 1}, {Name: "B", Type: "file"}, {Name: "a", Type: "directory"},
			{Name: "b", Type: "file", Size: 5}, {Name: "link", Type: "symlink"},
		}
		if _, err := os.Stat(e.at("A")); err == nil {
			want = want[:0] // names differ only in case, and are the same name here
		}
		got := must(e.list(ctx, e.context(), e.dir, nil))
		expect(!got.GetTruncated(), "truncated", true, false)
		for i, entry := range want {
			expect(len(got.GetEntries()) == len(want) && proto.Equal(got.GetEntries()[i], entry),
				"the entries", got.GetEntries(), want)
		}
	}},
	{"ListDirectory reports that it was truncated at its limit", func(ctx context.Context, e *env) {
		for i := range 30 {
			e.put(fmt.Sprintf("f%02d", i), "")
		}
		for limit, want := range map[uint32]int{1: 1, 29: 29, 30: 30, 31: 30} {
			got := must(e.list(ctx, e.context(), e.dir, &limit))
			expect(len(got.GetEntries()) == want && got.GetTruncated() == (want < 30), fmt.Sprintf("limit %d", limit),
				fmt.Sprintf("%d entries, truncated %v", len(got.GetEntries()), got.GetTruncated()), want)
			for i, entry := range got.GetEntries() {
				equal(fmt.Sprintf("limit %d, entry %d", limit, i), entry.GetName(), fmt.Sprintf("f%02d", i))
			}
		}
	}},
	{"ListDirectory rejects files, missing folders and paths outside of the roots", func(ctx context.Context, e *env) {
		e.putAll(map[string]string{"ws/f": "x", "out/f": "x"})
		e.link("../out", "ws/link")
		in := e.below("ws")
		for name, want := range map[string]func(error, string){
			"ws/f":       func(err error, _ string) { wantRejected("a file", err, codes.InvalidArgument) },
			"ws/nothing": wantMissing,
			"ws/link":    wantEscapes,
			"out":        wantEscapes,
		} {
			_, err := e.list(ctx, in, e.at(name), nil)
			want(err, e.at(name))
		}
	}},
}

// list skips the case if the handler does not implement fs/list_directory, which is not part of ACP.
func (e *env) list(ctx context.Context, c *acpv1.CallContext, path string, limit *uint32) (*fsv1.ListDirectoryResponse, error) {
	got, err := e.fs().ListDirectory(ctx, &fsv1.ListDirectoryRequest{Context: c, SessionId: c.GetSessionId(), Path: path, Limit: limit})
	skipIf(status.Code(err) == codes.Unimplemented, "the handler does not list folders")
	return got, err
}
