package files

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/testkit"
)

// must fails the test for an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// protecting is a Disk with protected paths whose changes are watched.
func protecting(t testing.TB, paths ...string) *Disk {
	t.Helper()
	d := New()
	must(t, d.Configure(Config{Protected: paths}, false))
	if p := d.state.Load().protected; p.watch == nil || len(p.result.unwatched) > 0 {
		t.Skipf("changes of %v cannot be watched here: %+v", paths, p.result)
	}
	return d
}

// Each change makes the second hard link, or the folder with another name, one that is protected, or ends that.
var changes = []struct {
	name      string
	protected string // below the folder
	before    bool   // protected before the change
	after     bool
	make      func(t testing.TB, dir string)
	change    func(t testing.TB, dir string)
}{
	{name: "the file is made", protected: "own/policy", after: true,
		make:   func(t testing.TB, dir string) { put(t, dir+"/own/other", "") },
		change: func(t testing.TB, dir string) { must(t, os.Link(dir+"/ws/f", dir+"/own/policy")) }},
	{name: "the file is made, with the folders above it", protected: "a/b/c/policy", after: true,
		change: func(t testing.TB, dir string) {
			put(t, dir+"/a/b/c/other", "")
			must(t, os.Link(dir+"/ws/f", dir+"/a/b/c/policy"))
		}},
	{name: "the file is replaced", protected: "own/policy", after: true,
		make: func(t testing.TB, dir string) {
			put(t, dir+"/own/policy", "")
			must(t, os.Link(dir+"/ws/f", dir+"/own/new"))
		},
		change: func(t testing.TB, dir string) { must(t, os.Rename(dir+"/own/new", dir+"/own/policy")) }},
	{name: "the file is exchanged", protected: "own/policy", after: true,
		make: func(t testing.TB, dir string) {
			put(t, dir+"/own/policy", "")
			must(t, os.Link(dir+"/ws/f", dir+"/own/new"))
		},
		change: func(t testing.TB, dir string) {
			must(t, unix.Renameat2(unix.AT_FDCWD, dir+"/own/new", unix.AT_FDCWD, dir+"/own/policy", unix.RENAME_EXCHANGE))
		}},
	{name: "the file is removed", protected: "own/policy", before: true,
		make: func(t testing.TB, dir string) {
			put(t, dir+"/own/other", "")
			must(t, os.Link(dir+"/ws/f", dir+"/own/policy"))
		},
		change: func(t testing.TB, dir string) { must(t, os.Remove(dir+"/own/policy")) }},
	{name: "its folder is replaced", protected: "own/policy", after: true,
		make:   twoFolders("own", "new"),
		change: replaced("own", "new")},
	{name: "the folder above its folder is replaced", protected: "a/own/policy", after: true,
		make:   twoFolders("a/own", "b/own"),
		change: replaced("a", "b")},
	{name: "the folder three above is replaced", protected: "a/b/c/own/policy", after: true,
		make:   twoFolders("a/b/c/own", "n/b/c/own"),
		change: replaced("a", "n")},
	{name: "its folder is replaced by a link", protected: "own/policy", after: true,
		make: twoFolders("own", "new"),
		change: func(t testing.TB, dir string) {
			must(t, os.Rename(dir+"/own", dir+"/old"))
			link(t, "new", dir+"/own")
		}},
	{name: "a link on the way is replaced", protected: "link/policy", after: true,
		make: func(t testing.TB, dir string) {
			twoFolders("own", "new")(t, dir)
			link(t, "own", dir+"/link")
		},
		change: func(t testing.TB, dir string) {
			link(t, "new", dir+"/link2")
			must(t, os.Rename(dir+"/link2", dir+"/link"))
		}},
	{name: "the folder that a link on the way leads to is replaced", protected: "link/policy", after: true,
		make: func(t testing.TB, dir string) {
			twoFolders("far/own", "far/new")(t, dir)
			link(t, "far/own", dir+"/link")
		},
		change: replaced("far/own", "far/new")},
	{name: "the folder that a link leads through is replaced", protected: "link/policy", after: true,
		make: func(t testing.TB, dir string) {
			twoFolders("far/own", "fern/own")(t, dir)
			link(t, "far/own", dir+"/link")
		},
		change: replaced("far", "fern")},
	{name: "a link that leads nowhere does", protected: "link", after: true,
		make: func(t testing.TB, dir string) { link(t, "far/policy", dir+"/link") },
		change: func(t testing.TB, dir string) {
			must(t, os.Mkdir(dir+"/far", 0o755))
			must(t, os.Link(dir+"/ws/f", dir+"/far/policy"))
		}},
	{name: "a folder replaces a file", protected: "own/policy", after: true,
		make: func(t testing.TB, dir string) { put(t, dir+"/own", "a file") },
		change: func(t testing.TB, dir string) {
			must(t, os.Remove(dir+"/own"))
			must(t, os.Mkdir(dir+"/own", 0o755))
			must(t, os.Link(dir+"/ws/f", dir+"/own/policy"))
		}},
	{name: "it is there after very many changes", protected: "own/policy", after: true,
		make: func(t testing.TB, dir string) { put(t, dir+"/own/0", "") },
		change: func(t testing.TB, dir string) { // more than a queue holds: 16,384 unless root has it otherwise
			for range 4_200 {
				must(t, unix.Rename(dir+"/own/0", dir+"/own/1"))
				must(t, unix.Rename(dir+"/own/1", dir+"/own/0"))
			}
			must(t, os.Link(dir+"/ws/f", dir+"/own/policy"))
		}},
}

// twoFolders makes a protected folder with a policy, and another whose policy is the file of the workspace.
func twoFolders(now, later string) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		put(t, dir+"/"+now+"/policy", "")
		put(t, dir+"/"+later+"/other", "")
		must(t, os.Link(dir+"/ws/f", dir+"/"+later+"/policy"))
	}
}

func replaced(now, later string) func(t testing.TB, dir string) {
	return func(t testing.TB, dir string) {
		must(t, os.Rename(dir+"/"+now, dir+"/old"))
		must(t, os.Rename(dir+"/"+later, dir+"/"+now))
	}
}

func TestWatch_ProtectedFollowsChanges(t *testing.T) {
	for _, c := range changes {
		for name, unwatched := range map[string]bool{"watched": false, "looked up": true} {
			t.Run(c.name+"/"+name, func(t *testing.T) {
				dir := workspace(t)
				put(t, dir+"/ws/f", "content")
				if c.make != nil {
					c.make(t, dir)
				}
				d := New()
				must(t, d.Configure(Config{Protected: []string{dir + "/" + c.protected}}, false))
				if unwatched {
					d.state.Load().protected.watch = nil
				}
				check := func(want bool) {
					t.Helper()
					for range 2 {
						_, err := read(d, in(dir+"/ws"), dir+"/ws/f")
						if got := kindOf(err) == Protected; got != want {
							t.Errorf("protected: %v (%v), want %v", got, err, want)
						}
					}
				}
				check(c.before)
				c.change(t, dir)
				check(c.after)
			})
		}
	}
}

func TestWatch_RotatedRecordStaysProtected(t *testing.T) {
	dir := workspace(t)
	state := dir + "/state"
	put(t, dir+"/ws/f", "")
	log := put(t, state+"/audit.jsonl", "record 0")
	d := protecting(t, log, log+".1", log+".2")
	for i, want := range []Kind{Protected, Protected, Protected, 0} { // the last rotation drops the first record
		hard := dir + "/ws/hard"
		if i == 0 {
			must(t, os.Link(log, hard))
		} else {
			_ = os.Rename(log+".1", log+".2")
			must(t, os.Rename(log, log+".1"))
			put(t, log, "record "+strconv.Itoa(i))
		}
		_, err := read(d, in(dir+"/ws"), hard)
		wantKind(t, err, want)
		for _, name := range []string{log, log + ".1", log + ".2"} {
			_, err := read(d, in(dir), name)
			wantKind(t, err, Protected)
		}
	}
}

func TestWatch_LooksUpUnwatchablePaths(t *testing.T) {
	dir := workspace(t)
	put(t, dir+"/own/policy", "rules")
	put(t, dir+"/ws/f", "content")
	t.Chdir(dir + "/ws")
	d := New()
	must(t, d.Configure(Config{Protected: []string{"/proc/self/cwd/f", dir + "/own"}}, false))
	p := d.state.Load().protected
	if p.watch == nil || len(p.result.unwatched) != 1 || p.result.unwatched[0].requested != "/proc/self/cwd/f" {
		t.Fatalf("unwatched files: %+v", p.result)
	}
	_, err := read(d, in(dir), dir+"/ws/f")
	wantKind(t, err, Protected)
	_, err = read(d, in(dir), dir+"/own/policy")
	wantKind(t, err, Protected)
	put(t, dir+"/other/f", "content")
	_, err = read(d, in(dir), dir+"/other/f")
	wantKind(t, err, 0)
	t.Chdir(dir + "/other")
	_, err = read(d, in(dir), dir+"/other/f")
	wantKind(t, err, Protected)
}

func TestWatch_FolderBecomesSearchable(t *testing.T) {
	dir := workspace(t)
	put(t, dir+"/ws/f", "content")
	put(t, dir+"/closed/own/other", "")
	must(t, os.Link(dir+"/ws/f", dir+"/closed/own/policy"))
	must(t, os.Chmod(dir+"/closed", 0o700))
	if os.Geteuid() == 0 { // root may search it: this goroutine is another user for the file system
		for up := filepath.Dir(dir); up != "/" && up != "/tmp"; up = filepath.Dir(up) {
			must(t, os.Chmod(up, 0o755))
		}
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		must(t, unix.Setfsuid(65534))
		defer func() { _ = unix.Setfsuid(0) }()
	} else {
		must(t, os.Chmod(dir+"/closed", 0))
	}
	d := protecting(t, dir+"/closed/own/policy")
	if got := d.state.Load().protected.watch.unsearchable; len(got) != 1 || got[0] != dir+"/closed" {
		t.Fatalf("closed: %q", got)
	}
	for range 2 {
		_, err := read(d, in(dir+"/ws"), dir+"/ws/f") // by its name alone, as without a watch
		wantKind(t, err, 0)
	}
	if os.Geteuid() == 0 {
		must(t, unix.Setfsuid(0))
		must(t, os.Chmod(dir+"/closed", 0o755))
		must(t, unix.Setfsuid(65534))
	} else {
		must(t, os.Chmod(dir+"/closed", 0o700))
	}
	_, err := read(d, in(dir+"/ws"), dir+"/ws/f")
	wantKind(t, err, Protected)
}

func TestWatch_NoticesMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root mounts")
	}
	runtime.LockOSThread() // for good: the thread ends with the goroutine
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		t.Skip("no mounts can be made here:", err)
	}
	must(t, unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""))
	dir := workspace(t)
	put(t, dir+"/a/own/policy", "rules")
	put(t, dir+"/ws/own/policy", "content")
	put(t, dir+"/ws/bound/f", "")
	d := protecting(t, dir+"/a/own")
	check := func(path string, want Kind) {
		t.Helper()
		for range 2 {
			_, err := read(d, in(dir+"/ws"), dir+path)
			wantKind(t, err, want)
		}
	}
	bind := func(from, to string) func() {
		must(t, unix.Mount(dir+from, dir+to, "", unix.MS_BIND, ""))
		return func() { must(t, unix.Unmount(dir+to, 0)) }
	}
	check("/ws/own/policy", 0)
	undo := bind("/ws/own", "/a/own") // the protected folder is another one now
	check("/ws/own/policy", Protected)
	undo()
	check("/ws/own/policy", 0)
	undo = bind("/ws", "/a") // so is it if one above is
	check("/ws/own/policy", Protected)
	undo()
	check("/ws/own/policy", 0)
	undo = bind("/a/own", "/ws/bound")
	check("/ws/bound/policy", Protected)
	undo()
	must(t, unix.Mount("none", dir+"/a", "tmpfs", 0, "")) // by its name alone
	check("/ws/own/policy", 0)
	must(t, os.Mkdir(dir+"/a/own", 0o755))
	undo = bind("/a/own", "/ws/bound")
	check("/ws/bound/policy", Protected)
	undo()
	must(t, unix.Unmount(dir+"/a", 0))
}

func TestWatch_ReadDuringRenamesDoesNotLeak(t *testing.T) {
	dir := workspace(t)
	put(t, dir+"/ws/f", "")
	put(t, dir+"/own/deep/policy", "rules")
	must(t, os.Link(dir+"/own/deep/policy", dir+"/ws/hard"))
	d := protecting(t, dir+"/own/deep")
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-done:
				return
			default:
			}
			put(t, dir+"/own/other"+strconv.Itoa(i%100), "")
			_ = os.Remove(dir + "/own/other" + strconv.Itoa((i+50)%100))
			_ = os.Symlink("own/deep", dir+"/ws/link")
			_ = os.Remove(dir + "/ws/link")
		}
	}()
	for range 2000 {
		for _, path := range []string{"/ws/hard", "/own/deep/policy"} {
			if text, err := read(d, in(dir), dir+path); err == nil {
				t.Fatalf("%s was read: %q", path, text.Content)
			}
		}
	}
	close(done)
	<-stopped
}

func TestWatch_NewConfigurationReplacesWatch(t *testing.T) {
	dir := workspace(t)
	put(t, dir+"/ws/f", "content")
	put(t, dir+"/ws/g", "content")
	put(t, dir+"/own/other", "")
	must(t, os.Link(dir+"/ws/f", dir+"/own/policy"))
	d := protecting(t, dir+"/own/policy")
	first, numbers := d.state.Load(), map[int]bool{}
	for range 20 {
		must(t, d.Configure(Config{Protected: []string{dir + "/own/policy", dir + "/own/new"}}, false))
		numbers[d.state.Load().protected.watch.events] = true
	}
	if len(numbers) != 1 {
		t.Errorf("a configuration takes %d watches", len(numbers))
	}
	must(t, os.Link(dir+"/ws/g", dir+"/own/new"))
	for path, want := range map[string]Kind{"/ws/f": Protected, "/ws/g": Protected} {
		_, err := read(d, in(dir+"/ws"), dir+path)
		wantKind(t, err, want)
	}
	// A call that began with the first configuration is held to it.
	_, err := first.locate(in(dir+"/ws"), dir+"/ws/f", readAccess)
	wantKind(t, err, Protected)
	_, err = first.locate(in(dir+"/ws"), dir+"/ws/g", readAccess)
	wantKind(t, err, 0)
}

func TestWatch_DropsOtherFolders(t *testing.T) {
	dir := workspace(t)
	file := put(t, dir+"/ws/f", "content")
	link(t, "0", dir+"/link")
	d := protecting(t, dir+"/link/deep/policy")
	p := d.state.Load().protected
	watches := func() int {
		info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", p.watch.events))
		must(t, err)
		return strings.Count(string(info), "inotify wd:")
	}
	check := func() {
		t.Helper()
		_, err := read(d, in(dir+"/ws"), file)
		wantKind(t, err, 0)
	}
	put(t, dir+"/0/deep/other", "")
	check()
	before := watches()
	for i := range 30 {
		put(t, fmt.Sprintf("%s/%d/deep/other", dir, i+1), "")
		must(t, os.Remove(dir+"/link"))
		link(t, strconv.Itoa(i+1), dir+"/link")
		check()
	}
	if after := watches(); after != before {
		t.Errorf("%d folders are watched, %d were", after, before)
	}
	// Once nothing changes any more, in the folder of all tests either, the paths are not looked up again.
	testkit.Eventually(t, "a read looks no path up", func() bool {
		result := p.result
		check()
		return p.result == result
	})
}

// TestWatch_AgreesWithLookup changes folders at random, and compares a Disk that watches them with a Disk that looks up
// every path.
func TestWatch_AgreesWithLookup(t *testing.T) {
	dir := workspace(t)
	random := rand.New(rand.NewPCG(1, 2))
	name := func() string { return string(rune('a' + random.IntN(3))) }
	path := func() string {
		p := dir
		for range 1 + random.IntN(4) {
			p += "/" + name()
		}
		return p
	}
	for range 12 {
		var own []string
		for range 3 {
			own = append(own, path())
		}
		watching, looking := New(), New()
		for _, d := range []*Disk{watching, looking} {
			must(t, d.Configure(Config{Protected: own}, false))
		}
		if watching.state.Load().protected.watch == nil {
			t.Skip("changes cannot be watched here")
		}
		looking.state.Load().protected.watch = nil
		did := ""
		for range 150 {
			switch from, to := path(), path(); random.IntN(8) {
			case 0, 1:
				did = "mkdir " + to
				_ = os.Mkdir(to, 0o755)
			case 2:
				did = "write " + to
				_ = os.WriteFile(to, []byte("content"), 0o600)
			case 3:
				did = "link " + from + " " + to
				_ = os.Link(from, to)
			case 4:
				did = "symlink " + from + " " + to
				_ = os.Symlink(from, to)
			case 5:
				did = "rename " + from + " " + to
				_ = os.Rename(from, to)
			case 6:
				did = "exchange " + from + " " + to
				_ = unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, unix.RENAME_EXCHANGE)
			case 7:
				did = "remove " + to
				_ = os.Remove(to)
			}
			for range 4 {
				requested := path()
				got, err := watching.Resolve(t.Context(), in(dir), requested)
				want, wantErr := looking.Resolve(t.Context(), in(dir), requested)
				if got != want || kindOf(err) != kindOf(wantErr) {
					t.Fatalf("%s, of %q, after %s:\nwatching %+v, %v\nlooking  %+v, %v", requested, own, did, got, err, want, wantErr)
				}
			}
		}
		_ = filepath.WalkDir(dir, func(p string, _ os.DirEntry, _ error) error {
			if p != dir {
				_ = os.RemoveAll(p)
				return filepath.SkipDir
			}
			return nil
		})
	}
}
