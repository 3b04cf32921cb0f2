package decisions

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/reuse"
	"github.com/acphost/acphost/internal/sandbox"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
)

// lending is a supervisor that gives a lease with each answer, and the client of a sandbox that it answers.
type lending struct {
	t          *testing.T
	client     *client
	generation *Generation
	close      func()
	dir        string     // in which files are changed
	rules      string     // the file by which a policy decides
	mu         sync.Mutex // guards what follows: a socket orders nothing for the race detector
	count      *Count
	asked      int
	keys       []FileID
	view       string
}

func (l *lending) Judge(_ context.Context, asked Asked) Answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if asked.Counts == nil {
		return Answer{Allowed: true}
	}
	if l.count == nil {
		l.count = asked.Counts.New()
	}
	state, ok := reuse.Of(l.rules, true)
	if !ok {
		l.t.Errorf("%s cannot be looked at", l.rules)
	}
	return Answer{Allowed: true, Lease: &Lease{
		Reuse: &permissionv1.Reuse{View: l.view, Except: []string{"secret"}, Files: []*permissionv1.FileState{state}}, Keys: l.keys, Count: l.count,
	}}
}

func (l *lending) Started(int, uint64) {}

func (l *lending) Refused(int, string, string) {}

func newLending(t *testing.T) *lending {
	t.Helper()
	generation, err := NewGeneration()
	if err != nil {
		t.Fatal(err)
	}
	conn, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	fd, err := unix.FcntlInt(theirs.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		t.Fatal(err)
	}
	_ = theirs.Close()
	decider, err := Dial(fd, sandbox.Options{})
	if err != nil {
		t.Fatal(err)
	}
	l := &lending{t: t, client: decider.(*client), generation: generation, dir: t.TempDir(), view: reuse.View()}
	l.rules = filepath.Join(t.TempDir(), "rules")
	l.write(l.rules)
	served := make(chan error, 1)
	go func() { served <- Serve(conn, l, func(Began) {}, generation) }()
	closed := false
	l.close = func() {
		if !closed {
			closed = true
			_ = conn.Close()
			if err := <-served; err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(func() {
		l.close()
		unix.Close(fd)
		if held := l.client.leases.Load(); held != nil {
			held.end()
		}
		generation.Close()
	})
	return l
}

func (l *lending) write(file string) {
	l.t.Helper()
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		l.t.Fatal(err)
	}
}

// allowed asks about the change of a file.
func (l *lending) allowed(name string) bool {
	l.t.Helper()
	dir, err := os.Open(l.dir)
	if err != nil {
		l.t.Fatal(err)
	}
	defer dir.Close()
	return l.client.Allows(sandbox.Event{Operation: sandbox.Write, PID: os.Getpid(), Path: filepath.Join(l.dir, name), Held: int(dir.Fd()), Name: name})
}

// change asks likewise, and reports whether the supervisor was asked.
func (l *lending) change(name string) (asked bool) {
	l.t.Helper()
	before := l.questions()
	if !l.allowed(name) {
		l.t.Errorf("%s: it was refused", name)
	}
	return l.questions() > before
}

func (l *lending) questions() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.asked
}

// counted is how often the lease was used.
func (l *lending) counted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.count.Take()
}

func TestLease_CoversOtherNamesInFolder(t *testing.T) {
	l := newLending(t)
	if !l.change("a") {
		t.Error("the first one was not asked about")
	}
	l.write(filepath.Join(l.dir, "there"))
	for _, name := range []string{"a", "b", "there", "c.d-e_f@1+2=3, 4"} {
		if l.change(name) {
			t.Errorf("%s: it was asked about", name)
		}
	}
	if n := l.counted(); n != 4 {
		t.Errorf("it was counted %d times, and used 4 times", n)
	}
}

func TestLease_DoesNotCoverOtherReads(t *testing.T) {
	l := newLending(t)
	key := filepath.Join(l.dir, "key")
	l.write(key)
	info, err := os.Stat(key)
	if err != nil {
		t.Fatal(err)
	}
	id, _ := IDOf(info)
	l.keys = []FileID{id} // before anything is asked
	l.write(filepath.Join(l.dir, "linked"))
	for _, err := range []error{
		os.Symlink("/", filepath.Join(l.dir, "link")), os.Mkdir(filepath.Join(l.dir, "folder"), 0o700),
		os.Link(filepath.Join(l.dir, "linked"), filepath.Join(l.dir, "other")), unix.Mkfifo(filepath.Join(l.dir, "pipe"), 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{
		"my.Secret", ".hidden", ".git", "HEAD", "config", "objects", "Refs", "a:b", "ä", "a\xff", strings.Repeat("x", 256), "link", "folder", "other",
		"linked", "pipe", "key",
	} {
		l.change("a") // there is a lease
		if l.change("a") {
			t.Fatal("there is no lease")
		}
		if !l.change(name) {
			t.Errorf("%s: it was not asked about", name)
		}
	}
}

func TestLease_Ends(t *testing.T) {
	for name, end := range map[string]func(*lending){
		"with the generation": func(l *lending) { l.generation.Changed() },
		"with the rules":      func(l *lending) { l.write(l.rules + ".new"); _ = os.Rename(l.rules+".new", l.rules) },
		"with its time": func(l *lending) {
			for _, held := range l.client.leases.Load().all {
				held.until = time.Now()
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLending(t)
			l.change("a")
			if l.change("b") {
				t.Fatal("there was none")
			}
			end(l)
			if !l.change("b") {
				t.Error("it was used again")
			}
		})
	}
}

func TestLease_EndsWithSupervisor(t *testing.T) {
	l := newLending(t)
	l.change("a")
	l.close()
	if l.allowed("b") {
		t.Error("it was allowed")
	}
	if n := l.counted(); n != 0 {
		t.Errorf("%d were counted", n)
	}
}

func TestLease_OfOtherMountIsNotUsed(t *testing.T) {
	l := newLending(t)
	l.view = "elsewhere"
	l.change("a")
	if !l.change("b") {
		t.Error("it was used")
	}
}

func TestCounts_OutliveSandbox(t *testing.T) {
	l := newLending(t)
	l.change("a")
	l.change("b")
	l.close()
	if n := l.counted(); n != 1 {
		t.Errorf("%d were counted, and there was 1", n)
	}
}

func TestCounts_AreLimited(t *testing.T) {
	l := newLending(t)
	l.change("a")
	l.mu.Lock()
	counts := l.count.of
	l.mu.Unlock()
	var all []*Count
	for n := counts.New(); n != nil; n = counts.New() {
		all = append(all, n)
	}
	if len(all) != maxCounts-1 {
		t.Errorf("there are %d", len(all))
	}
	all[7].Take()
	if n := counts.New(); n == nil || n.n != all[7].n {
		t.Errorf("got %v, and one was given back", n)
	}
}

// TestSharedMemory_IsSealed: a sandbox can neither change the generation in the shared memory nor shrink the memory,
// which would kill its readers.
func TestSharedMemory_IsSealed(t *testing.T) {
	l := newLending(t)
	fd := int(l.generation.memory.file.Fd())
	if _, err := unix.Mmap(fd, 0, generationSize, unix.PROT_WRITE, unix.MAP_SHARED); err == nil {
		t.Error("the generation can be written")
	}
	if _, err := unix.Pwrite(fd, []byte{1}, 0); err == nil {
		t.Error("the generation can be written to its file")
	}
	if err := unix.Ftruncate(fd, 0); err == nil {
		t.Error("the memory can be taken away")
	}
}

func TestLease_RequiresSocket(t *testing.T) {
	g, err := NewGeneration()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if c := g.lend(nil); c != nil {
		t.Error("counts were lent")
	}
	g.Close()
	g.Changed()
	if _, ok := g.current(); ok {
		t.Error("it is closed and has a value")
	}
}

func TestServe_EndWithoutQuestionIsNoError(t *testing.T) {
	g, err := NewGeneration()
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	conn, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- Serve(conn, &lending{t: t}, func(Began) {}, g) }()
	poll := []unix.PollFd{{Fd: int32(theirs.Fd()), Events: unix.POLLIN}}
	if n, err := unix.Poll(poll, 10_000); err != nil || n != 1 { // what was lent is there, and nobody reads it
		t.Fatal(n, err)
	}
	_ = theirs.Close()
	if err := <-served; err != nil {
		t.Error(err)
	}
}
