package conformance

import (
	"context"
	"errors"
	"fmt"
	"os"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	fsv1 "github.com/acphost/acphost/proto/acphost/fs/v1"
)

func fsListCases() []demand {
	return []demand{
		{Name: "ListDirectory returns entries in order", Run: listIsInOrder},
		{Name: "ListDirectory is cut at its limit and says so", Run: listIsCut},
		{Name: "ListDirectory refuses files, missing folders and the outside", Run: listRefuses},
	}
}

// list skips the case if the handler does not answer fs/list_directory, which is not in ACP.
func (e *Env) list(ctx context.Context, c *acpv1.CallContext, path string, limit *uint32) (*fsv1.ListDirectoryResponse, error) {
	got, err := e.fs().ListDirectory(ctx, &fsv1.ListDirectoryRequest{Context: c, SessionId: c.GetSessionId(), Path: path, Limit: limit})
	if status.Code(err) == codes.Unimplemented {
		return nil, skip("the handler does not list folders")
	}
	return got, err
}

func listIsInOrder(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"b": "12345", "a/f": "", "B": "", ".hidden": "1"}))
	check(os.Symlink("b", e.at("link")))
	want := []*fsv1.DirectoryEntry{
		{Name: ".hidden", Type: "file", Size: 1}, {Name: "B", Type: "file"}, {Name: "a", Type: "directory"},
		{Name: "b", Type: "file", Size: 5}, {Name: "link", Type: "symlink"},
	}
	if _, err := os.Stat(e.at("A")); err == nil {
		want = want[:0] // names differ in case alone and are one here
	}
	got := must(e.list(ctx, e.Context(), e.Dir, nil))
	if got.GetTruncated() {
		fail(differs("truncated", true, false))
	}
	for i, entry := range want {
		if len(got.GetEntries()) != len(want) || !proto.Equal(got.GetEntries()[i], entry) {
			fail(differs("the entries", got.GetEntries(), want))
		}
	}
}

func listIsCut(ctx context.Context, e *Env) {
	for i := range 30 {
		must(e.put(fmt.Sprintf("f%02d", i), ""))
	}
	for limit, want := range map[uint32]int{1: 1, 29: 29, 30: 30, 31: 30} {
		got := must(e.list(ctx, e.Context(), e.Dir, &limit))
		if len(got.GetEntries()) != want || got.GetTruncated() != (want < 30) {
			fail(differs(fmt.Sprintf("limit %d", limit),
				fmt.Sprintf("%d entries, truncated %v", len(got.GetEntries()), got.GetTruncated()), want))
		}
		for i, entry := range got.GetEntries() {
			if name := fmt.Sprintf("f%02d", i); entry.GetName() != name {
				fail(differs(fmt.Sprintf("limit %d, entry %d", limit, i), entry.GetName(), name))
			}
		}
	}
}

func listRefuses(ctx context.Context, e *Env) {
	check(e.putAll(map[string]string{"ws/f": "x", "out/f": "x"}))
	check(os.Symlink("../out", e.at("ws/link")))
	in := e.below("ws")
	for name, demand := range map[string]func(error, string) error{
		"ws/f":       func(err error, _ string) error { return wantRefused("a file", err, codes.InvalidArgument) },
		"ws/nothing": wantMissing,
		"ws/link":    wantEscapes,
		"out":        wantEscapes,
	} {
		_, err := e.list(ctx, in, e.at(name), nil)
		if errors.Is(err, ErrSkipped) {
			fail(err)
		}
		check(demand(err, e.at(name)))
	}
}
