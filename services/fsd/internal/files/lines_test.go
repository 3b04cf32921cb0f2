package files

import (
	"strings"
	"testing"
)

// FuzzSlicer compares with a simple implementation, for every size of chunks.
func FuzzSlicer(f *testing.F) {
	f.Add("a\nb\nc", uint32(2), uint32(1), true, 1)
	f.Add("\n\n\n", uint32(1), uint32(2), true, 2)
	f.Add("no newline", uint32(0), uint32(0), false, 3)
	f.Add("a\r\nb\r\n", uint32(2), uint32(9), true, 100)
	f.Fuzz(func(t *testing.T, text string, first, limit uint32, limited bool, chunk int) {
		if chunk < 1 {
			return
		}
		lines := Range{First: first}
		if limited {
			lines.Limit = &limit
		}
		var got strings.Builder
		cut := newSlicer(lines)
		for rest := []byte(text); len(rest) > 0; {
			n := min(chunk, len(rest))
			part, done := cut.next(rest[:n])
			got.Write(part)
			rest = rest[n:]
			if done {
				break
			}
		}
		if want := naive(text, lines); got.String() != want {
			t.Errorf("%q, line %d, limit %v, in chunks of %d: got %q, want %q", text, first, limited, chunk, got.String(), want)
		}
	})
}

func naive(text string, lines Range) string {
	all := strings.SplitAfter(text, "\n")
	from := min(uint64(max(lines.First, 1))-1, uint64(len(all)))
	to := uint64(len(all))
	if lines.Limit != nil {
		to = min(to, from+uint64(*lines.Limit))
	}
	return strings.Join(all[from:to], "")
}

func TestRead_PagesAddUpToFile(t *testing.T) {
	ws := workspace(t)
	content := strings.Repeat("line\r\n\nanother line\n", 5000) + "end"
	path := put(t, ws+"/f", content)
	var got strings.Builder
	for first := uint32(1); ; first += 777 {
		text, err := New().Read(t.Context(), in(ws), path, Range{First: first, Limit: ptr[uint32](777)})
		if err != nil {
			t.Fatal(err)
		}
		if text.Content == "" {
			break
		}
		got.WriteString(text.Content)
	}
	if got.String() != content {
		t.Errorf("%d bytes that differ, want %d", got.Len(), len(content))
	}
}
