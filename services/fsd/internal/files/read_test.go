package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func ptr[T any](v T) *T { return &v }

func TestRead_ReturnsWholeFile(t *testing.T) {
	ws := workspace(t)
	for name, content := range map[string]string{
		"empty":            "",
		"no last newline":  "a\nb",
		"windows newlines": "a\r\nb\r\n",
		"old mac newlines": "a\rb\r",
		"byte order mark":  "\uFEFFa\n",
		"wide characters":  "héllo 世界 🎉\u2028x\n",
		"one byte":         "a",
		"a buffer's size":  strings.Repeat("x", readFirst),
		"several steps":    strings.Repeat("0123456789abcde\n", (9<<20)/16),
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, ws+"/f", content)
			text, err := read(New(), in(ws), path)
			if err != nil {
				t.Fatal(err)
			}
			if text.Content != content {
				t.Errorf("got %d bytes that differ, want %d", len(text.Content), len(content))
			}
			sum := sha256.Sum256([]byte(content))
			if want := "sha256:" + hex.EncodeToString(sum[:]); text.Digest != want {
				t.Errorf("digest %s, want %s", text.Digest, want)
			}
		})
	}
}

func TestRead_LinesCountFromOne(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "one\ntwo\r\n\nfour")
	for name, c := range map[string]struct {
		lines Range
		want  string
		whole bool
	}{
		"line 0 is line 1":     {Range{First: 0}, "one\ntwo\r\n\nfour", true},
		"from line 1":          {Range{First: 1}, "one\ntwo\r\n\nfour", true},
		"from line 2":          {Range{First: 2}, "two\r\n\nfour", false},
		"the first line":       {Range{Limit: ptr[uint32](1)}, "one\n", false},
		"an empty line":        {Range{First: 3, Limit: ptr[uint32](1)}, "\n", false},
		"the last line":        {Range{First: 4, Limit: ptr[uint32](1)}, "four", false},
		"two in the middle":    {Range{First: 2, Limit: ptr[uint32](2)}, "two\r\n\n", false},
		"as many as there are": {Range{Limit: ptr[uint32](4)}, "one\ntwo\r\n\nfour", true},
		"more than there are":  {Range{Limit: ptr[uint32](1 << 31)}, "one\ntwo\r\n\nfour", true},
		"no lines":             {Range{Limit: ptr[uint32](0)}, "", false},
		"past the end":         {Range{First: 5}, "", false},
		"far past the end":     {Range{First: 1<<32 - 1, Limit: ptr[uint32](1<<32 - 1)}, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := New().Read(context.Background(), in(ws), path, c.lines)
			if err != nil || text.Content != c.want || (text.Digest != "") != c.whole {
				t.Errorf("got %q, digest %q, %v, want %q, a digest: %v", text.Content, text.Digest, err, c.want, c.whole)
			}
		})
	}
}

func TestRead_LimitAtEndIsWholeRead(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "one\ntwo\n")
	text, err := New().Read(context.Background(), in(ws), path, Range{Limit: ptr[uint32](2)})
	if err != nil || text.Content != "one\ntwo\n" || text.Digest == "" {
		t.Errorf("got %+v, %v", text, err)
	}
}

func TestRead_RejectsBinaryFiles(t *testing.T) {
	ws := workspace(t)
	for name, content := range map[string]string{
		"a NUL":                   "a\x00b\n",
		"latin 1":                 "caf\xe9\n",
		"UTF-16":                  "\xff\xfea\x00\n\x00",
		"a surrogate":             "\xed\xa0\x80",
		"a character cut in half": "x\n\xe4\xb8",
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, ws+"/f", content)
			for _, lines := range []Range{{}, {Limit: ptr[uint32](9)}} {
				_, err := New().Read(context.Background(), in(ws), path, lines)
				wantKind(t, err, NotText)
				if err != nil && !strings.Contains(err.Error(), "not a text file") {
					t.Errorf("the error does not state it: %v", err)
				}
			}
		})
	}
	t.Run("but text lines of a file that is binary elsewhere are not", func(t *testing.T) {
		path := put(t, ws+"/f", "text\n\x00\xff\nmore\n")
		for first, want := range map[uint32]string{1: "text\n", 3: "more\n"} {
			text, err := New().Read(context.Background(), in(ws), path, Range{First: first, Limit: ptr[uint32](1)})
			if err != nil || text.Content != want {
				t.Errorf("line %d: %q, %v", first, text.Content, err)
			}
		}
	})
}

func TestRead_LimitErrorExplains(t *testing.T) {
	ws := workspace(t)
	d := New()
	if err := d.Configure(Config{MaxContent: 2048}, false); err != nil {
		t.Fatal(err)
	}
	full := put(t, ws+"/full", strings.Repeat("x", 2048))
	if _, err := read(d, in(ws), full); err != nil {
		t.Errorf("a file of just the ceiling: %v", err)
	}
	over := put(t, ws+"/over", strings.Repeat("x", 1000)+"\n"+strings.Repeat("y", 1999))
	_, err := read(d, in(ws), over)
	wantKind(t, err, TooLarge)
	for _, word := range []string{"3000", "2048", "line", "limit"} {
		if err != nil && !strings.Contains(err.Error(), word) {
			t.Errorf("the error does not name %s: %v", word, err)
		}
	}
	text, err := d.Read(context.Background(), in(ws), over, Range{Limit: ptr[uint32](1)})
	if err != nil || len(text.Content) != 1001 {
		t.Errorf("a line of a large file: %d bytes, %v", len(text.Content), err)
	}
	_, err = d.Read(context.Background(), in(ws), over, Range{Limit: ptr[uint32](2)})
	wantKind(t, err, TooLarge)
}

func TestRead_PartOfHugeFileTakesLittleMemory(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "first\nsecond\n")
	const far = 4 << 30
	if err := os.Truncate(path, far); err != nil {
		t.Skipf("no sparse files: %v", err)
	}
	defer func() { _ = os.Remove(path) }()
	d := New()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	text, err := d.Read(context.Background(), in(ws), path, Range{First: 2, Limit: ptr[uint32](1)})
	if err != nil || text.Content != "second\n" {
		t.Fatalf("got %q, %v", text.Content, err)
	}
	_, err = d.Read(context.Background(), in(ws), path, Range{First: 3})
	wantKind(t, err, NotText)
	_, err = read(d, in(ws), path)
	wantKind(t, err, TooLarge)
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("%d bytes were allocated", used)
	}
}

func TestRead_RejectsSpecialFilesWithoutBlocking(t *testing.T) {
	ws := workspace(t)
	l, err := net.Listen("unix", ws+"/s")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	fifo(t, ws+"/p")
	if err := os.Mkdir(ws+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "p", ws+"/to-p")
	for _, path := range []string{ws + "/s", ws + "/p", ws + "/to-p", ws + "/d", ws + "/d/", "/dev/null", "/dev/zero", "/dev/tty"} {
		_, err := read(New(), in(ws, "/dev"), path)
		if path == "/dev/tty" && kindOf(err) == Missing {
			continue
		}
		wantKind(t, err, Invalid)
		_, err = write(New(), in(ws, "/dev"), path, "x")
		if path == "/dev/tty" && kindOf(err) == Denied {
			continue
		}
		wantKind(t, err, Invalid)
	}
	// A file that replaces the checked file.
	p := &resolvedPath{requested: ws + "/p", path: ws + "/p"}
	for _, flags := range []int{os.O_RDONLY, os.O_WRONLY, os.O_RDWR} {
		if _, _, err := New().state.Load().openFile(p, flags); err == nil {
			t.Error("a FIFO was opened as a file")
		}
	}
}

func TestRead_FileWithoutSize(t *testing.T) {
	want, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		t.Skip("no /proc here")
	}
	text, err := read(New(), in("/proc"), fmt.Sprintf("/proc/%d/limits", os.Getpid()))
	if err != nil || text.Content != string(want) {
		t.Errorf("got %q, %v", text.Content, err)
	}
}

func TestRead_EndsWithContext(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "text")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_, err := New().Read(ctx, in(ws), path, Range{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	// In the middle: a context that ends when it is asked for the third time.
	if err := os.Truncate(path, 1<<30); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.Remove(path) }()
	looks := &countdown{Context: context.Background(), left: 3}
	_, err = New().Read(looks, in(ws), path, Range{First: 2})
	if !errors.Is(err, context.Canceled) || looks.left != 0 {
		t.Errorf("got %v with %d looks left", err, looks.left)
	}
}

// countdown is a context that is cancelled after some calls of Err.
type countdown struct {
	context.Context
	left int
}

func (c *countdown) Err() error {
	if c.left == 0 {
		return context.Canceled
	}
	c.left--
	return nil
}

func TestRead_FileThatGrowsOrShrinks(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "0123456789")
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	for _, size := range []int64{0, 4, 10, 100} { // the result of fstat
		if _, err := f.Seek(0, 0); err != nil {
			t.Fatal(err)
		}
		r := &reader{ctx: context.Background(), fd: int(f.Fd()), path: path, size: size, max: 1024}
		got, err := r.whole()
		if err != nil || string(got) != "0123456789" {
			t.Errorf("with a size of %d: %q, %v", size, got, err)
		}
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	r := &reader{ctx: context.Background(), fd: int(f.Fd()), path: path, size: 5, max: 6}
	if _, err := r.whole(); kindOf(err) != TooLarge {
		t.Errorf("growing over the ceiling: %v", err)
	}
}

// TestRead_SwappedLinkDoesNotLeak swaps links as fast as possible while the path is read and written. Each call has to
// return content from inside the root or an error.
func TestRead_SwappedLinkDoesNotLeak(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/dir/f", "inside")
	put(t, outer+"/out/f", "outside")
	link(t, ws+"/dir", ws+"/in-link")
	link(t, outer+"/out", ws+"/out-link")

	stop := make(chan struct{})
	var swapper sync.WaitGroup
	swapper.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			// dir is in turn the real folder and a link to the outside; the target name is never absent for long.
			_ = os.Rename(ws+"/dir", ws+"/held")
			_ = os.Symlink(outer+"/out", ws+"/dir")
			_ = os.Remove(ws + "/dir")
			_ = os.Rename(ws+"/held", ws+"/dir")
		}
	})
	d := New()
	kinds := make(map[Kind]int)
	for range 3000 {
		text, err := read(d, in(ws), ws+"/dir/f")
		if err == nil && text.Content != "inside" {
			t.Errorf("read gave %q", text.Content)
		}
		kinds[kindOf(err)]++
		if kinds[0]%10 == 0 {
			_, err = write(d, in(ws), ws+"/dir/f", "inside")
			kinds[kindOf(err)]++
		}
	}
	close(stop)
	swapper.Wait()
	if got := contentOf(t, outer+"/out/f"); got != "outside" {
		t.Errorf("a write reached the outside: %q", got)
	}
	if names, _ := os.ReadDir(outer + "/out"); len(names) != 1 {
		t.Errorf("something was made outside: %v", names)
	}
	if kinds[0] == 0 || kinds[-1] != 0 {
		t.Errorf("outcomes by kind: %v", kinds)
	}
	t.Logf("outcomes by kind: %v", kinds)
}

func TestDisk_ConcurrentReadsAndWrites(t *testing.T) {
	ws := workspace(t)
	d := New()
	path := ws + "/new/folder/f"
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			content := strings.Repeat(string(rune('a'+i)), 1<<16)
			for range 20 {
				if _, err := write(d, in(ws), path, content); err != nil {
					t.Error(err)
				}
				text, err := read(d, in(ws), path)
				if err != nil {
					t.Error(err)
				} else if len(text.Content) != 1<<16 || strings.Trim(text.Content, text.Content[:1]) != "" {
					t.Error("a read saw half a write")
				}
			}
		})
	}
	all.Wait()
	wantNoLeftovers(t, ws+"/new/folder")
	if n := len(d.locks.held); n != 0 { // no process can change it any more
		t.Errorf("%d locks were left", n)
	}
}

func BenchmarkRead(b *testing.B) {
	ws := workspace(b)
	for _, size := range []int{4 << 10, 64 << 10, 1 << 20} {
		path := put(b, fmt.Sprintf("%s/src/pkg/f%d", ws, size), strings.Repeat("0123456789abcde\n", size/16))
		b.Run(fmt.Sprintf("%dKiB", size>>10), func(b *testing.B) {
			d := New()
			b.SetBytes(int64(size))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := read(d, in(ws), path); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
