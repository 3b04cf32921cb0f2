package files

import (
	"context"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/acphost/acphost/internal/textform"
)

func TestForm_IsKeptByWrite(t *testing.T) {
	ws := workspace(t)
	d := New()
	long := strings.Repeat("x", formHeadSize)
	for name, tt := range map[string]struct{ old, content, want, note string }{
		"CRLF":                        {"a\r\nb\r\n", "a\nc\n", "a\r\nc\r\n", "the file keeps its CRLF line ends"},
		"CRLF after a long line":      {long + "\r\nb\r\n", "a\n", "a\r\n", "the file keeps its CRLF line ends"},
		"CRLF over many reads":        {strings.Repeat("line\r\n", 100_000), "a\nb", "a\r\nb", "the file keeps its CRLF line ends"},
		"mixed, the other one at end": {strings.Repeat("line\r\n", 100_000) + "\n", "a\nb", "a\nb", ""},
		"a byte order mark":           {"\ufeffa\n", "b\n", "\ufeffb\n", "the file keeps its byte order mark"},
		"both":                        {"\ufeffa\r\n", "b\n", "\ufeffb\r\n", "the file keeps its CRLF line ends and byte order mark"},
		"it is written in its form":   {"a\r\n", "b\r\n", "b\r\n", ""},
		"CRLF on purpose":             {"a\n", "b\r\n", "b\r\n", ""},
		"emptied":                     {"\ufeffa\r\n", "", "", ""},
		"empty before":                {"", "a\r\nb\n", "a\r\nb\n", ""},
	} {
		for _, linked := range []bool{false, true} { // replaced, and written in place
			path := put(t, ws+"/f", tt.old)
			_ = os.Remove(ws + "/other")
			if linked {
				if err := os.Link(path, ws+"/other"); err != nil {
					t.Skip("no hard links: ", err)
				}
			}
			read, err := read(d, in(ws), path)
			if err != nil {
				t.Fatal(err)
			}
			if kept := read.Kept.Apply(tt.content); kept != tt.want {
				t.Errorf("%s: by the read, %q would be written", name, kept)
			}
			done, err := write(d, in(ws), path, tt.content)
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			if got := contentOf(t, path); got != tt.want || done.Digest != digestOf([]byte(tt.want)) {
				t.Errorf("%s: the file holds %.40q, want %.40q; the digest is of it: %t", name, got, tt.want, done.Digest == digestOf([]byte(got)))
			}
			if notes := strings.Join(done.Notes, "\n"); (tt.note != "") != strings.HasPrefix(notes, "the file keeps") || !strings.HasPrefix(notes, tt.note) {
				t.Errorf("%s: it notes %q, want %q", name, notes, tt.note)
			}
		}
	}
}

func TestForm_CountsAgainstLimit(t *testing.T) {
	ws := workspace(t)
	d := New()
	if err := d.Configure(Config{MaxContent: MinMaxContent}, false); err != nil {
		t.Fatal(err)
	}
	path := put(t, ws+"/f", "a\r\n")
	_, err := write(d, in(ws), path, strings.Repeat("a\n", 400))
	if e, ok := errors.AsType[*Error](err); !ok || e.Kind != TooLarge || contentOf(t, path) != "a\r\n" {
		t.Errorf("a content that is too large in the file's form: %v", err)
	}
	put(t, path, strings.Repeat("a\r\n", 400)) // which no read returns whole
	if _, err := write(d, in(ws), path, "a\n"); err != nil || contentOf(t, path) != "a\n" {
		t.Errorf("%v: got %q", err, contentOf(t, path))
	}
	if err := d.Configure(Config{AsSent: true}, false); err != nil {
		t.Fatal(err)
	}
	put(t, path, "\ufeffa\r\n")
	text, err := d.Read(context.Background(), in(ws), path, Range{})
	if err != nil || text.Kept != (textform.Form{}) {
		t.Errorf("%v: a read states that %q is kept", err, text.Kept)
	}
	if done, err := write(d, in(ws), path, "b\n"); err != nil || contentOf(t, path) != "b\n" || len(done.Notes) > 0 {
		t.Errorf("as sent: %v, %q", err, contentOf(t, path))
	}
}

func TestForm_ReportedByWholeRead(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "a\r\nb\r\n")
	one, two := uint32(1), uint32(2)
	for _, tt := range []struct {
		lines  Range
		silent bool
		want   bool
	}{{Range{}, false, true}, {Range{Limit: &two}, false, true}, {Range{Limit: &one}, false, false}, {Range{First: 2}, false, false}, {Range{}, true, false}} {
		b := in(ws)
		b.NoDigest = tt.silent
		text, err := New().Read(context.Background(), b, path, tt.lines)
		if err != nil || text.Kept.CRLF != tt.want {
			t.Errorf("%+v: %v, kept: %v", tt, err, text.Kept)
		}
	}
}
