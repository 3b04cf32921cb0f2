package files

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestWrite_CreatesOrReplaces(t *testing.T) {
	ws := workspace(t)
	d := New()
	for _, content := range []string{"new\n", "", "héllo\r\n", strings.Repeat("x", 1<<20)} {
		done, err := write(d, in(ws), ws+"/f", content)
		if err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, ws+"/f"); got != content {
			t.Errorf("got %d bytes that differ, want %d", len(got), len(content))
		}
		if done.Path != ws+"/f" || len(done.Notes) != 0 || done.Digest != digestOf([]byte(content)) {
			t.Errorf("got %+v", done)
		}
	}
	wantNoLeftovers(t, ws)
}

func TestWrite_OpenReadersSeeOldContent(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "old")
	reader, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if _, err := write(New(), in(ws), path, "new"); err != nil {
		t.Fatal(err)
	}
	old := make([]byte, 9)
	if n, _ := reader.Read(old); string(old[:n]) != "old" {
		t.Errorf("who had the file open saw %q", old[:n])
	}
}

func TestWrite_CreatesFolders(t *testing.T) {
	ws := workspace(t)
	if err := os.Mkdir(ws+"/real", 0o755); err != nil {
		t.Fatal(err)
	}
	link(t, "real", ws+"/alias")
	done, err := write(New(), in(ws), ws+"/alias/a/b/../c/f", "x")
	if err != nil || done.Path != ws+"/real/a/c/f" || contentOf(t, done.Path) != "x" {
		t.Errorf("got %+v, %v", done, err)
	}
}

func TestWrite_FollowsLinkInsideRoot(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/target", "old")
	link(t, "target", ws+"/link")
	link(t, "later/target", ws+"/dangling")
	for path, target := range map[string]string{"/link": "/target", "/dangling": "/later/target"} {
		if _, err := write(New(), in(ws), ws+path, "new"); err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, ws+target); got != "new" {
			t.Errorf("%s: the target holds %q", path, got)
		}
		if fi, err := os.Lstat(ws + path); err != nil || fi.Mode()&os.ModeSymlink == 0 {
			t.Errorf("%s is no link any more: %v, %v", path, fi.Mode(), err)
		}
	}
}

func TestWrite_KeepsPermissions(t *testing.T) {
	ws := workspace(t)
	for _, mode := range []os.FileMode{0o600, 0o640, 0o755, 0o777, 0o222} {
		path := put(t, ws+"/f", "old")
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := write(New(), in(ws), path, "new"); err != nil {
			t.Fatal(err)
		}
		if fi, _ := os.Stat(path); fi.Mode() != mode {
			t.Errorf("mode %v became %v", mode, fi.Mode())
		}
		_ = os.Remove(path)
	}
}

func TestWrite_DropsSetUserID(t *testing.T) {
	ws := workspace(t)
	for name, prepare := range map[string]func(path string){
		"replaced": func(string) {},
		"in place": func(path string) { _ = os.Link(path, path+".other") },
	} {
		t.Run(name, func(t *testing.T) {
			path := put(t, ws+"/"+name, "old")
			if err := os.Chmod(path, 0o755|os.ModeSetuid|os.ModeSetgid); err != nil {
				t.Fatal(err)
			}
			prepare(path)
			done, err := write(New(), in(ws), path, "new")
			if err != nil {
				t.Fatal(err)
			}
			if fi, _ := os.Stat(path); fi.Mode() != 0o755 {
				t.Errorf("the mode is %v", fi.Mode())
			}
			if len(done.Notes) == 0 || !strings.Contains(done.Notes[0], "set-user-id") {
				t.Errorf("notes: %q", done.Notes)
			}
		})
	}
}

func TestWrite_HardLinkedFileInPlace(t *testing.T) {
	ws := workspace(t)
	for _, c := range [][2]string{{"a longer old content", "new"}, {"old", "a longer new content"}, {"old", ""}} {
		path := put(t, ws+"/f", c[0])
		if err := os.Link(path, ws+"/other"); err != nil {
			t.Fatal(err)
		}
		done, err := write(New(), in(ws), path, c[1])
		if err != nil {
			t.Fatal(err)
		}
		if got := contentOf(t, ws+"/other"); got != c[1] {
			t.Errorf("the other name holds %q, want %q", got, c[1])
		}
		if len(done.Notes) != 1 || !strings.Contains(done.Notes[0], "hard link") {
			t.Errorf("notes: %q", done.Notes)
		}
		_ = os.Remove(path)
		_ = os.Remove(ws + "/other")
	}
}

func TestWrite_SerializesHardLinks(t *testing.T) {
	ws := workspace(t)
	put(t, ws+"/a", strings.Repeat("-", 1<<16))
	if err := os.Link(ws+"/a", ws+"/b"); err != nil {
		t.Fatal(err)
	}
	d := New()
	var all sync.WaitGroup
	for i, name := range []string{"/a", "/b", "/a", "/b"} {
		all.Go(func() {
			for range 10 {
				if _, err := write(d, in(ws), ws+name, strings.Repeat(string(rune('0'+i)), 1<<16)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	got := contentOf(t, ws+"/a")
	if strings.Trim(got, got[:1]) != "" || len(got) != 1<<16 {
		t.Error("two writes were mixed")
	}
}

func TestWrite_RejectsInvalidTargets(t *testing.T) {
	outer := workspace(t)
	ws := outer + "/ws"
	put(t, ws+"/f", "old")
	put(t, outer+"/out", "outside")
	link(t, outer+"/out", ws+"/leaves")
	link(t, outer+"/nothing", ws+"/leaves-to-nothing")
	link(t, outer, ws+"/folder-leaves")
	d := New()
	if err := d.Configure(Config{MaxContent: 1024}, false); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]Kind{
		ws:                                  Invalid,
		ws + "/":                            Invalid,
		ws + "/new/":                        Invalid,
		ws + "/f/":                          Invalid,
		ws + "/f/below":                     Invalid,
		ws + "/new/.":                       Invalid,
		ws + "/" + strings.Repeat("n", 256): Invalid,
		ws + "/d/" + strings.Repeat("n", 256) + "/f": Invalid,
		ws + "/new\x00":            Invalid,
		"f":                        Invalid,
		"":                         Invalid,
		outer + "/out":             Escapes,
		outer + "/made":            Escapes,
		ws + "/leaves":             Escapes,
		ws + "/leaves-to-nothing":  Escapes,
		ws + "/folder-leaves/made": Escapes,
		ws + "/../made":            Escapes,
	} {
		_, err := write(d, in(ws), path, "new")
		if kindOf(err) != want {
			t.Errorf("%q: %v, want kind %d", path, err, want)
		}
	}
	_, err := write(d, in(ws), ws+"/f", strings.Repeat("x", 1025))
	wantKind(t, err, TooLarge)
	if _, err := write(d, in(ws), ws+"/"+strings.Repeat("n", 255), "the longest name"); err != nil {
		t.Error(err)
	}
	if contentOf(t, outer+"/out") != "outside" || contentOf(t, ws+"/f") != "old" {
		t.Error("a refused write wrote")
	}
	if names, _ := os.ReadDir(outer); len(names) != 2 {
		t.Errorf("something was made outside: %v", names)
	}
}

func TestWrite_RequiresExpectedDigest(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "one")
	d := New()
	text, err := read(d, in(ws), path)
	if err != nil {
		t.Fatal(err)
	}
	expecting := func(content, digest string) (Written, error) {
		return d.Write(context.Background(), in(ws), path, content, digest)
	}
	done, err := expecting("two", text.Digest)
	if err != nil {
		t.Fatal(err)
	}
	_, err = expecting("three", text.Digest)
	wantKind(t, err, Changed)
	if done, err = expecting("four", done.Digest); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(path, ws+"/other"); err != nil {
		t.Fatal(err)
	}
	_, err = expecting("in place", text.Digest)
	wantKind(t, err, Changed)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	_, err = expecting("five", done.Digest)
	wantKind(t, err, Changed)
	if _, err := os.Lstat(path); err == nil {
		t.Error("a removed file was made again")
	}
	wantNoLeftovers(t, ws)
}

func TestWrite_DetectsConcurrentWrite(t *testing.T) {
	ws := workspace(t)
	path := put(t, ws+"/f", "one")
	d := New()
	p, unlock, err := d.locateLocked(d.state.Load(), in(ws), path)
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	w := &writer{disk: d, state: d.state.Load(), target: p, content: []byte("new"), expected: digestOf([]byte("one")), dir: -1, old: -1}
	defer w.close()
	for _, step := range []func() error{w.openFolder, w.openOld, w.checkExpected} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	put(t, path, "theirs")
	_, err = w.replace()
	wantKind(t, err, Changed)
	if got := contentOf(t, path); got != "theirs" {
		t.Errorf("the file holds %q", got)
	}
	wantNoLeftovers(t, ws)
}

func TestWrite_CancelledBeforeBegin(t *testing.T) {
	ws := workspace(t)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := New().Write(ctx, in(ws), ws+"/f", "x", ""); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Lstat(ws + "/f"); err == nil {
		t.Error("the file was written")
	}
}

func TestWrite_FinishesAfterCancel(t *testing.T) {
	ws := workspace(t)
	ctx := &countdown{Context: context.Background(), left: 1}
	if _, err := New().Write(ctx, in(ws), ws+"/f", "x", ""); err != nil {
		t.Error(err)
	}
	if got := contentOf(t, ws+"/f"); got != "x" {
		t.Errorf("got %q", got)
	}
}

func TestSweep_RemovesOnlyAbandonedTemporaryFiles(t *testing.T) {
	ws := workspace(t)
	long := time.Now().Add(-time.Hour)
	for name, old := range map[string]bool{
		".acphost-0123456789abcdef.tmp":  true,
		".acphost-fedcba9876543210.tmp":  false, // somebody is writing it
		".acphost-0123456789abcdeg.tmp":  true,  // not ours
		".acphost-0123.tmp":              true,
		"acphost-0123456789abcdef.tmp":   true,
		".acphost-0123456789abcdef.tmp.": true,
	} {
		path := put(t, ws+"/"+name, "")
		if old {
			if err := os.Chtimes(path, long, long); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := os.Mkdir(ws+"/.acphost-aaaaaaaaaaaaaaaa.tmp", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(ws+"/.acphost-aaaaaaaaaaaaaaaa.tmp", long, long); err != nil {
		t.Fatal(err)
	}
	if _, err := write(New(), in(ws), ws+"/f", "x"); err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadDir(ws)
	if err != nil {
		t.Fatal(err)
	}
	if len(left) != 7 { // six others and f
		t.Errorf("left: %v", left)
	}
	if _, err := os.Lstat(ws + "/.acphost-0123456789abcdef.tmp"); err == nil {
		t.Error("the leftover is still there")
	}
	if !isTemporaryName(temporaryName()) {
		t.Error("our own names are not known as ours")
	}
}

func TestSweep_LimitsRememberedFolders(t *testing.T) {
	var s sweeper
	for i := range uint64(3 * sweptFolders) {
		if !s.firstSweep(identity{1, i}) {
			t.Fatalf("folder %d was taken for swept", i)
		}
		if s.firstSweep(identity{1, i}) {
			t.Fatalf("folder %d was not remembered", i)
		}
		if len(s.done) > sweptFolders {
			t.Fatalf("%d folders are remembered", len(s.done))
		}
	}
}

func BenchmarkWrite(b *testing.B) {
	ws := workspace(b)
	content := strings.Repeat("0123456789abcde\n", 256)
	b.Run("new", func(b *testing.B) {
		d := New()
		for b.Loop() {
			if _, err := write(d, in(ws), ws+"/new", content); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			_ = os.Remove(ws + "/new")
			b.StartTimer()
		}
	})
	b.Run("replace", func(b *testing.B) {
		d := New()
		for b.Loop() {
			if _, err := write(d, in(ws), ws+"/f", content); err != nil {
				b.Fatal(err)
			}
		}
	})
}
