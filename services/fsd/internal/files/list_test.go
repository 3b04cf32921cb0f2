package files

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
)

func TestList_IsSortedAndFollowsNoLinks(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/b", "12345")
	put(t, ws+"/B", "")
	put(t, ws+"/a/inside", "")
	put(t, ws+"/.hidden", "1")
	link(t, "/etc", ws+"/link")
	fifo(t, ws+"/pipe")
	want := []Entry{
		{".hidden", TypeFile, 1}, {"B", TypeFile, 0}, {"a", TypeDirectory, 0},
		{"b", TypeFile, 5}, {"link", TypeSymlink, 0}, {"pipe", TypeOther, 0},
	}
	if os.WriteFile(ws+"/z\xff", nil, 0o644) == nil { // not on every file system
		want = append(want, Entry{"z\uFFFD", TypeFile, 0})
	}
	for _, path := range []string{ws, ws + "/", ws + "/a/.."} {
		got, err := New().List(context.Background(), in(ws), path, 0)
		if err != nil || got.Truncated || got.Path != ws || !slices.Equal(got.Entries, want) {
			t.Errorf("got %+v, %v, want %+v", got, err, want)
		}
	}
}

func TestList_StopsAtLimit(t *testing.T) {
	ws := workspace(t)
	for i := range 2500 {
		put(t, fmt.Sprintf("%s/%04d", ws, i), "")
	}
	for limit, want := range map[uint32]int{0: 1000, 1: 1, 2499: 2499, 2500: 2500, 10000: 2500} {
		got, err := New().List(context.Background(), in(ws), ws, limit)
		if err != nil || len(got.Entries) != want || got.Truncated != (want < 2500) {
			t.Errorf("limit %d: %d entries, truncated %v, %v", limit, len(got.Entries), got.Truncated, err)
			continue
		}
		for i, e := range got.Entries {
			if e.Name != fmt.Sprintf("%04d", i) {
				t.Errorf("limit %d: entry %d is %s", limit, i, e.Name)
				break
			}
		}
	}
	_, err := New().List(context.Background(), in(ws), ws, 10001)
	wantKind(t, err, Invalid)
}

func TestList_RejectsOtherPaths(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/f", "")
	fifo(t, ws+"/pipe")
	link(t, "/etc", ws+"/out")
	for path, want := range map[string]Kind{
		ws + "/f": Invalid, ws + "/pipe": Invalid, ws + "/nothing": Missing, ws + "/out": Escapes, "/etc": Escapes, ".": Invalid,
	} {
		if _, err := New().List(context.Background(), in(ws), path, 0); kindOf(err) != want {
			t.Errorf("%s: %v, want kind %d", path, err, want)
		}
	}
}

func TestList_EndsWithContext(t *testing.T) {
	ws := workspace(t)
	ctx := &countdown{Context: context.Background(), left: 1}
	if _, err := New().List(ctx, in(ws), ws, 0); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}
