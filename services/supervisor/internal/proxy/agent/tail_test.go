package agent

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestTail_KeepsLastLines(t *testing.T) {
	var last []string
	for i := range 20 {
		last = append(last, fmt.Sprint("line ", i+80))
	}
	var hundred strings.Builder
	for i := range 100 {
		fmt.Fprintf(&hundred, "line %d\n", i)
	}
	for name, tc := range map[string]struct {
		in   string
		want []string
	}{
		"nothing":                      {"", nil},
		"an unfinished line":           {"a\nb", []string{"a", "b"}},
		"empty lines":                  {"\n\na\n\r\n \n", []string{"a"}},
		"more lines than it keeps":     {hundred.String(), last},
		"and an unfinished one":        {hundred.String() + "end", append(last[1:20:20], "end")},
		"a line that is too long":      {strings.Repeat("x", 100_000) + "\nb\n", []string{strings.Repeat("x", 500), "b"}},
		"characters, not bytes":        {strings.Repeat("é", 600), []string{strings.Repeat("é", 500)}},
		"bytes that are no text":       {"a\xffb\n", []string{"a\ufffdb"}},
		"colours and titles":           {"\x1b[31mred\x1b[0m \x1b]0;title\x07x\x1b(By\n", []string{"red xy"}},
		"a progress bar":               {"10%\r20%\r100%\x1b[K\n", []string{"100%"}},
		"an escape that never ends":    {"a\x1b[31\nb\x1b]8;;\nc\x1b\n", []string{"a", "b", "c"}},
		"control characters":           {"a\x00\x07\tb\r\n\u009b31m\n", []string{"a b", "31m"}},
		"a title that ends with an ST": {"\x1b]0;x\x1b\\after\n", []string{"after"}},
	} {
		for _, size := range []int{1, 7, 1 << 20} {
			var got tail
			for rest := []byte(tc.in); len(rest) > 0; {
				n := min(size, len(rest))
				got.add(rest[:n])
				rest = rest[n:]
			}
			if lines := got.get(); !slices.Equal(lines, tc.want) {
				t.Errorf("%s, in pieces of %d: got %q, want %q", name, size, lines, tc.want)
			}
		}
	}
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("a\x1b[31mb\nc"), 2)
	f.Fuzz(func(t *testing.T, in []byte, size int) {
		if size <= 0 {
			return
		}
		var got tail
		for rest := in; len(rest) > 0; {
			n := min(size, len(rest))
			got.add(rest[:n])
			rest = rest[n:]
		}
		lines := got.get()
		if len(lines) > tailLines {
			t.Errorf("%d lines", len(lines))
		}
		for _, line := range lines {
			if len([]rune(line)) > tailChars || strings.ContainsAny(line, "\x1b\n\r\x00") {
				t.Errorf("line %q", line)
			}
		}
		var whole tail
		whole.add(in)
		if !slices.Equal(whole.get(), lines) {
			t.Errorf("in pieces of %d: %q, whole: %q", size, lines, whole.get())
		}
	})
}
