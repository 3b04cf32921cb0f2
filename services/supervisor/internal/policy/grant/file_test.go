package grant

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/acphost/acphost/internal/ownfile"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func listed(s *Store) string {
	var ids []string
	for _, g := range s.List() {
		ids = append(ids, g.GetId())
	}
	return strings.Join(ids, " ")
}

func at(now time.Time) func() time.Time { return (&clock{now}).Now }

// jsonLines is what a file with grants holds.
func jsonLines(t testing.TB, grants ...*supervisorv1.Grant) string {
	t.Helper()
	var b strings.Builder
	for _, g := range grants {
		line, err := Line(g)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	return b.String()
}

func writeFile(t testing.TB, file, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func readFile(t testing.TB, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestFile_KeepsLongGrants(t *testing.T) {
	file := tempFile(t)
	s := open(t, Options{File: file, Now: at(start)})
	grants := g(run(turn, "a"), run(session, "b"), run(workspace, "c"), run(agent, "d"), run(everywhere, "e"))
	add(t, s, here, grants...)
	if n := len(s.List()); n != 5 {
		t.Errorf("%d grants are listed, want 5", n)
	}
	again := open(t, Options{File: file, Now: at(start)})
	list := again.List()
	if len(list) != 3 {
		t.Fatalf("got %v, want 3", list)
	}
	for i, want := range grants[2:] {
		if !proto.Equal(list[i], want) {
			t.Errorf("got %v, want %v", list[i], want)
		}
	}
	if want := start.AddDate(0, 0, DefaultDays); !list[0].GetExpireTime().AsTime().Equal(want) {
		t.Errorf("it ends %v, want %v", list[0].GetExpireTime().AsTime(), want)
	}
	for path, want := range map[string]os.FileMode{file: 0o600, filepath.Dir(file): 0o700} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
}

func TestStore_StaysInMemoryWithoutFile(t *testing.T) {
	s := open(t, Options{Now: at(start)})
	e := run(everywhere, "e")
	add(t, s, here, e)
	if got := s.Match(line("e"), here); got.Verdict != Allow {
		t.Errorf("got %v", got.Verdict)
	}
	revoked, err := s.Revoke(e.GetId())
	if err != nil || len(revoked) != 1 || listed(s) != "" {
		t.Errorf("revoked %v, %v; %q is left", revoked, err, listed(s))
	}
	if _, err := s.Revoke(e.GetId()); !errors.Is(err, ErrUnknown) {
		t.Errorf("got %v", err)
	}
}

func TestStore_TurnAndSessionEndRemoveGrants(t *testing.T) {
	s := open(t, Options{})
	other := here
	other.Scope = "scope-2"
	add(t, s, here, run(turn, "a"), run(session, "b"), run(everywhere, "c"))
	add(t, s, other, run(turn, "d"))
	what := func() string {
		var all []string
		for _, g := range s.List() {
			all = append(all, g.GetArgv()...)
		}
		return strings.Join(all, "")
	}
	s.EndTurn(here.Scope)
	if what() != "bcd" {
		t.Errorf("after the turn: %s", what())
	}
	s.EndSession(here.Scope)
	if what() != "cd" {
		t.Errorf("after the session: %s", what())
	}
}

func TestGrant_Expires(t *testing.T) {
	now := &clock{start}
	s := open(t, Options{File: tempFile(t), Now: now.Now, Days: 2})
	brief := run(session, "b")
	add(t, s, here, run(everywhere, "a"), brief)
	if brief.GetExpireTime() != nil {
		t.Error("a grant for a session ends before it")
	}
	for _, step := range []struct {
		after time.Duration
		want  Verdict
	}{{48*time.Hour - time.Nanosecond, Allow}, {48 * time.Hour, None}} {
		now.now = start.Add(step.after)
		if got := s.Match(line("a"), here); got.Verdict != step.want {
			t.Errorf("after %v: got %v", step.after, got.Verdict)
		}
	}
	if list := s.List(); len(list) != 1 {
		t.Errorf("got %v", list)
	}
}

func TestRevoke_IsAtomic(t *testing.T) {
	file := tempFile(t)
	s := open(t, Options{File: file, Now: at(start)})
	a, b := run(everywhere, "a"), run(session, "b")
	add(t, s, here, a, b)
	if _, err := s.Revoke(a.GetId(), b.GetId(), "nosuchgrant0"); !errors.Is(err, ErrUnknown) || !strings.Contains(err.Error(), "nosuchgrant0") {
		t.Errorf("got %v", err)
	}
	if n := len(s.List()); n != 2 {
		t.Errorf("%d grants are left, want 2", n)
	}
	revoked, err := s.Revoke(a.GetId(), b.GetId(), a.GetId())
	if err != nil || len(revoked) != 2 || listed(s) != "" {
		t.Errorf("revoked %v, %v; %q is left", revoked, err, listed(s))
	}
	if again := open(t, Options{File: file, Now: at(start)}); listed(again) != "" {
		t.Errorf("%q came back", listed(again))
	}
}

func TestFile_RevocationAppliesAtOnceGrantAfterReload(t *testing.T) {
	file := tempFile(t)
	one, two := open(t, Options{File: file}), open(t, Options{File: file})
	a := run(workspace, "make")
	add(t, one, here, a)
	if got := one.Match(line("make"), here); got.Verdict != Allow {
		t.Errorf("where it was added: %v", got.Verdict)
	}
	if got := two.Match(line("make"), here); got.Verdict != None || listed(two) != "" {
		t.Errorf("elsewhere, before a person has reloaded: %v, %q", got.Verdict, listed(two))
	}
	if err := two.Reload(); err != nil {
		t.Fatal(err)
	}
	if got := two.Match(line("make"), here); got.Verdict != Allow {
		t.Errorf("after a reload: %v", got.Verdict)
	}
	// The id of an answer that counts does not make another one count.
	wider := run(workspace, "rm")
	wider.Id, wider.CreateTime, wider.ExpireTime = a.GetId(), a.GetCreateTime(), a.GetExpireTime()
	forged, err := Line(wider)
	if err != nil {
		t.Fatal(err)
	}
	honest, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(forged, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := one.Match(line("rm"), here); got.Verdict != None {
		t.Errorf("a forged line under a known id: %v", got.Verdict)
	}
	if err := os.WriteFile(file, honest, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := one.Match(line("make"), here); got.Verdict != None {
		t.Errorf("an answer that was gone and stands there again: %v", got.Verdict)
	}
	if _, err := two.Revoke(a.GetId()); err != nil {
		t.Fatal(err)
	}
	if got := one.Match(line("make"), here); got.Verdict != None {
		t.Errorf("after it was revoked: %v", got.Verdict)
	}
	add(t, one, here, run(workspace, "make"))
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	if got := one.Match(line("make"), here); got.Verdict != None {
		t.Errorf("after the file was removed: %v", got.Verdict)
	}
}

func TestAdd_RejectsInvalidGrants(t *testing.T) {
	s := open(t, Options{File: tempFile(t)})
	for name, change := range map[string]func(*supervisorv1.Grant){
		"no scope":                       func(g *supervisorv1.Grant) { g.Scope = 0 },
		"an unknown scope":               func(g *supervisorv1.Grant) { g.Scope = 77 },
		"a workspace without a path":     func(g *supervisorv1.Grant) { g.Workspace = "" },
		"a workspace by half a path":     func(g *supervisorv1.Grant) { g.Workspace = "w" },
		"an agent without a name":        func(g *supervisorv1.Grant) { g.Scope, g.Agent = agent, "" },
		"no command":                     func(g *supervisorv1.Grant) { g.Argv = nil },
		"a command without a program":    func(g *supervisorv1.Grant) { g.Argv[0] = "" },
		"an empty prefix":                func(g *supervisorv1.Grant) { g.Argv, g.Prefix = nil, true },
		"half a directory":               func(g *supervisorv1.Grant) { g.Cwd = "sub" },
		"a directory that climbs":        func(g *supervisorv1.Grant) { g.Cwd = "/w/../x" },
		"a command and a path":           func(g *supervisorv1.Grant) { g.Path = "/w" },
		"an action by its kind alone":    func(g *supervisorv1.Grant) { g.Action, g.Argv = "tool.fetch", nil },
		"reading without a path":         func(g *supervisorv1.Grant) { g.Action, g.Argv = "read", nil },
		"reading half a path":            func(g *supervisorv1.Grant) { g.Action, g.Argv, g.Path = "read", nil, "**" },
		"reading by a glob that is none": func(g *supervisorv1.Grant) { g.Action, g.Argv, g.Path = "read", nil, "/w/[" },
		"a digest that is none":          func(g *supervisorv1.Grant) { g.Argv, g.Exactly = nil, "sha256:00" },
		"a digest and a command":         func(g *supervisorv1.Grant) { g.Exactly = "sha256:" + strings.Repeat("0", 64) },
		"nobody gave it":                 func(g *supervisorv1.Grant) { g.GrantedBy = "" },
		"an id that is none":             func(g *supervisorv1.Grant) { g.Id = "A" },
	} {
		t.Run(name, func(t *testing.T) {
			bad := run(workspace, "make")
			change(bad)
			if err := s.Add(here, run(session, "good"), bad); err == nil || listed(s) != "" {
				t.Errorf("got %v; %q is added", err, listed(s))
			}
		})
	}
	if err := s.Add(Where{}, run(session, "make")); err == nil {
		t.Error("a grant for a session without one was added")
	}
}

func TestFile_TornLastLineLosesNoOther(t *testing.T) {
	first, second, third := lasting("aaaaaaaa", "a"), lasting("bbbbbbbb", "b"), lasting("cccccccc", "c")
	whole := jsonLines(t, first, second)
	begins := len(jsonLines(t, first))
	for n := begins; n <= len(whole); n++ {
		file := tempFile(t)
		writeFile(t, file, whole[:n])
		logger, log := logged()
		s := open(t, Options{File: file, Now: at(start), Logger: logger})
		want := "aaaaaaaa"
		if n == len(whole) {
			want += " bbbbbbbb"
		}
		if got := listed(s); got != want {
			t.Fatalf("%d bytes: got %q, want %q", n, got, want)
		}
		add(t, s, here, proto.CloneOf(third))
		if got := listed(s); got != want+" cccccccc" {
			t.Fatalf("%d bytes, after another: got %q", n, got)
		}
		torn := n > begins && n < len(whole)
		if torn != strings.Contains(log.String(), "torn") {
			t.Errorf("%d bytes: the log says %q", n, log)
		}
		if content := readFile(t, file); !strings.HasSuffix(content, jsonLines(t, third)) || strings.Count(content, "\n") != len(s.List()) {
			t.Fatalf("%d bytes: the file holds %s", n, content)
		}
	}
}

func TestFile_InvalidLineGrantsNothing(t *testing.T) {
	a, b := lasting("aaaaaaaa", "a"), lasting("bbbbbbbb", "b")
	no := refusing(lasting("dddddddd", "d"))
	for _, tt := range []struct {
		name, line, want string
	}{
		{"an empty one", "", "aaaaaaaa dddddddd bbbbbbbb"},
		{"a grant of a kind that is not known", `{"id":"cccccccc","scope":"GRANT_SCOPE_GALAXY","action":"run","argv":["c"]}`, "aaaaaaaa dddddddd bbbbbbbb"},
		{"a grant with a field that is not known", `{"id":"cccccccc","scope":"GRANT_SCOPE_EVERYWHERE","sudo":true}`, "aaaaaaaa dddddddd bbbbbbbb"},
		{"a grant for a session", strings.ReplaceAll(strings.TrimSpace(jsonLines(t, lasting("cccccccc", "c"))), "EVERYWHERE", "SESSION"), "aaaaaaaa dddddddd bbbbbbbb"},
		{"a grant that stands there twice", strings.TrimSpace(jsonLines(t, a)), "aaaaaaaa dddddddd bbbbbbbb"},
		{"a revocation", `{"revoked":["aaaaaaaa"],"time":"x"}`, "dddddddd bbbbbbbb"},
		{"a revocation of what is not there", `{"revoked":["xxxxxxxx"],"time":"x"}`, "aaaaaaaa dddddddd bbbbbbbb"},
		{"half a line", `{"revoked":["aaaa`, "dddddddd bbbbbbbb"},
		{"a revocation with more to it", `{"revoked":["aaaaaaaa"],"why":"x"}`, "dddddddd bbbbbbbb"},
		{"a revocation of nothing", `{"revoked":[]}`, "dddddddd bbbbbbbb"},
		{"a no that is not understood", `{"scope":"GRANT_SCOPE_EVERYWHERE","refuse":true,"new":1}`, "dddddddd bbbbbbbb"},
		{"garbage", "\x00\xff", "dddddddd bbbbbbbb"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			file := tempFile(t)
			writeFile(t, file, jsonLines(t, a, no)+tt.line+"\n"+jsonLines(t, b))
			logger, log := logged()
			s := open(t, Options{File: file, Now: at(start), Logger: logger})
			if got := listed(s); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			complains := tt.line != "" && !strings.HasSuffix(tt.line, `"time":"x"}`)
			if complains != strings.Contains(log.String(), "line=3") {
				t.Errorf("the log says %q", log)
			}
		})
	}
}

func TestFile_RejectsFileWritableByOthers(t *testing.T) {
	content := jsonLines(t, lasting("aaaaaaaa", "make"))
	for name, spoil := range map[string]func(file string) error{
		"the group can write to it":        func(f string) error { return os.Chmod(f, 0o660) },
		"all can write to it":              func(f string) error { return os.Chmod(f, 0o602) },
		"all can write to its folder":      func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) },
		"it is a symbolic link":            func(f string) error { return errors.Join(os.Rename(f, f+"2"), os.Symlink(f+"2", f)) },
		"it is a folder":                   func(f string) error { return errors.Join(os.Remove(f), os.Mkdir(f, 0o700)) },
		"it is larger than any of ours is": func(f string) error { return os.Truncate(f, maxFile+1) },
	} {
		t.Run(name, func(t *testing.T) {
			file := tempFile(t)
			writeFile(t, file, content)
			s := open(t, Options{File: file, Now: at(start)})
			if got := s.Match(line("make"), here); got.Verdict != Allow {
				t.Fatalf("at first: %v", got.Verdict)
			}
			if err := spoil(file); err != nil {
				t.Fatal(err)
			}
			if broken, err := Open(Options{File: file}); err == nil {
				_ = broken.Close()
				t.Error("it was opened")
			}
			if name == "all can write to its folder" {
				return // a file that was read before stays what it was
			}
			if got := s.Match(line("make"), here); got.Verdict != None {
				t.Errorf("afterwards: %v", got.Verdict)
			}
			if name == "it is larger than any of ours is" {
				return // what is no line is cut off by the next to write
			}
			if err := s.Add(here, run(everywhere, "x")); err == nil {
				t.Error("more was added")
			}
		})
	}
}

func TestFile_IsCompacted(t *testing.T) {
	file := tempFile(t)
	now := &clock{start}
	s := open(t, Options{File: file, Now: now.Now})
	other := open(t, Options{File: file, Now: now.Now})
	keep := lasting("aaaaaaaa", "keep")
	add(t, s, here, keep)
	long := strings.Repeat("x", 1000)
	for i := range 100 {
		a := lasting("", "make", long, fmt.Sprint(i))
		add(t, s, here, a)
		if _, err := other.Revoke(a.GetId()); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(readFile(t, file)); n > compactAt+4096 {
		t.Errorf("the file has %d bytes", n)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	if err := other.Reload(); err != nil {
		t.Fatal(err)
	}
	if listed(s) != "aaaaaaaa" || listed(other) != "aaaaaaaa" {
		t.Errorf("got %q and %q", listed(s), listed(other))
	}
	entries, err := os.ReadDir(filepath.Dir(file))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder holds %v (%v)", entries, err)
	}
}

func TestFile_LockTimesOut(t *testing.T) {
	if testing.Short() {
		t.Skip("left out of a short run: it waits the 2 s that a held lock may take")
	}
	file := tempFile(t)
	s := open(t, Options{File: file, Now: at(start)})
	add(t, s, here, lasting("aaaaaaaa", "make"))
	held, err := ownfile.Append(file)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	if err := ownfile.Lock(held, time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	if err := s.Add(here, lasting("bbbbbbbb", "x")); !errors.Is(err, ownfile.ErrLocked) {
		t.Errorf("got %v", err)
	}
	if got := s.Match(line("make"), here); got.Verdict != Allow {
		t.Errorf("reading waits for it too: %v", got.Verdict)
	}
}

func FuzzFile_GrantsOnlyWhatLinesSay(f *testing.F) {
	good := jsonLines(f, lasting("aaaaaaaa", "a"), refusing(lasting("bbbbbbbb", "b")))
	f.Add(good)
	f.Add(good + `{"revoked":["aaaaaaaa"],"time":""}` + "\n")
	f.Add(good[:len(good)-9])
	f.Add(`{"id":"cccccccc","scope":5,"action":"run","argv":["x"],"granted_by":"x","create_time":"2026-03-01T12:00:00Z"}` + "\n")
	f.Fuzz(func(t *testing.T, content string) {
		c := parse([]byte(content))
		ids := map[string]bool{}
		for _, g := range c.grants {
			if err := check(g); err != nil || ofSession(g.GetScope()) || ids[g.GetId()] {
				t.Errorf("%v was taken (%v)", g, err)
			}
			ids[g.GetId()] = true
			if !strings.Contains(content, "\n") {
				t.Error("a line without its end was taken")
			}
		}
		// What is written of it reads the same.
		if again := parse([]byte(jsonLines(t, c.grants...))); len(again.grants) != len(c.grants) || len(again.problems) > 0 {
			t.Errorf("%d grants were written and %d read: %v", len(c.grants), len(again.grants), again.problems)
		}
	})
}
