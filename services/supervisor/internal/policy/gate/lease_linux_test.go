package gate

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"google.golang.org/grpc"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	"github.com/acphost/acphost/services/supervisor/internal/policy/audit"
)

// counter is a Counter with a fixed value.
type counter struct{ n, taken uint64 }

func (c *counter) Take() uint64 { c.taken++; return c.n }

func fileWrite(file string) *permissionv1.Action {
	a := tries("fs.write", file)
	a.Paths[0].InsideRoots = true
	return a
}

// recordedAt is a gate with an audit log, its number of changes, and the file of the log.
func recordedAt(t *testing.T, c *child) (g *Gate, changes *int, file string) {
	t.Helper()
	changes = new(int)
	file = filepath.Join(t.TempDir(), "audit.jsonl")
	log, err := audit.Open(audit.Options{File: file, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return New(Options{
		Chain:    []Policy{{Name: "permission", Conn: func() (grpc.ClientConnInterface, error) { return c, nil }}},
		Enforced: true, Audit: log, Protected: []string{"/w/own/file"}, Changed: func() { *changes++ }, Logger: slog.New(slog.DiscardHandler),
	}), changes, file
}

// leaseOf returns the lease of an allowed process action.
func leaseOf(t *testing.T, g *Gate, a *permissionv1.Action, count func() Counter) *Lease {
	t.Helper()
	d := decide(t, g, Request{Action: a, Scope: "1", Turn: 1})
	if d.Verdict == Allow {
		if err := g.RecordAllowed(d, "/bin/p"); err != nil {
			t.Fatal(err)
		}
	}
	return g.Lease(d, "/bin/p", count)
}

func TestLease_CoversPlainChanges(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*child, *permissionv1.Action)
		file   string
		want   bool
	}{
		"a file":                         {nil, "/w/d/a", true},
		"it is denied":                   {func(c *child, _ *permissionv1.Action) { c.verdict = Deny }, "/w/d/a", false},
		"a person is to be asked":        {func(c *child, _ *permissionv1.Action) { c.verdict = Ask }, "/w/d/a", false},
		"the policy is a sidecar":        {func(c *child, _ *permissionv1.Action) { c.sidecar = true }, "/w/d/a", false},
		"the policy sees other files":    {func(c *child, _ *permissionv1.Action) { c.view = "elsewhere" }, "/w/d/a", false},
		"it is outside of the roots":     {func(_ *child, a *permissionv1.Action) { a.Paths[0].InsideRoots = false }, "/w/d/a", false},
		"it leads elsewhere":             {func(_ *child, a *permissionv1.Action) { a.Paths[0].ResolvedPath = "/w/e/a" }, "/w/d/a", false},
		"acphost's own":                  {func(_ *child, a *permissionv1.Action) { a.Paths[0].Protected = true }, "/w/d/a", false},
		"one of acphost's own is beside": {nil, "/w/own/a", false},
		"one is beside, in another case": {nil, "/w/OWN/a", false},
		"a name of a repository":         {nil, "/w/d/HEAD", false},
		"below a name of a repository":   {nil, "/w/objects/a", false},
		"below a folder of git's":        {nil, "/w/.git/a", false},
		"a name that is not plain":       {nil, "/w/d/a:b", false},
		"it is read": {func(_ *child, a *permissionv1.Action) {
			a.Kind, a.Paths[0].Access = "fs.read", permissionv1.Access_ACCESS_READ
		}, "/w/d/a", false},
		"the policy was told something since": {func(c *child, _ *permissionv1.Action) { c.during = func() { c.told.Add(1) } }, "/w/d/a", false},
	} {
		t.Run(name, func(t *testing.T) {
			p := newChild(t)
			g, _, _ := recordedAt(t, p)
			a := fileWrite(c.file)
			if c.change != nil {
				c.change(p, a)
			}
			if got := leaseOf(t, g, a, func() Counter { return &counter{} }); (got != nil) != c.want {
				t.Errorf("got %+v, want one: %t", got, c.want)
			}
		})
	}
}

func TestLease_NamesKeyFiles(t *testing.T) {
	p := newChild(t)
	g, changes, _ := recordedAt(t, p)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("k"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := g.Protect(key); err != nil {
		t.Fatal(err)
	}
	if *changes == 0 {
		t.Error("nobody was told that a file is protected")
	}
	info, err := os.Stat(key)
	if err != nil {
		t.Fatal(err)
	}
	l := leaseOf(t, g, fileWrite("/w/d/a"), func() Counter { return &counter{} })
	if l == nil || !slices.ContainsFunc(l.Keys, func(k os.FileInfo) bool { return os.SameFile(k, info) }) {
		t.Errorf("got %+v", l)
	}
	if l := leaseOf(t, g, fileWrite(filepath.Join(filepath.Dir(key), "a")), func() Counter { return &counter{} }); l != nil {
		t.Errorf("the key is in the folder: got %+v", l)
	}
}

func TestLease_CountsAllowedChanges(t *testing.T) {
	p := newChild(t)
	g, changes, file := recordedAt(t, p)
	made := 0
	c := &counter{n: 5}
	count := func() Counter { made++; return c }
	if leaseOf(t, g, fileWrite("/w/d/a"), count) == nil || leaseOf(t, g, fileWrite("/w/d/b"), count) == nil || made != 1 {
		t.Fatalf("%d counters were made, want 1", made)
	}
	was := *changes
	g.EndTurn("1")
	g.Close()
	if *changes == was || c.taken != 1 {
		t.Errorf("got %d changes, and it was taken %d times", *changes-was, c.taken)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(data, []byte("\n")); lines != 2 || !bytes.Contains(data, []byte(`"repeats":"6"`)) { // b, and the five
		t.Errorf("got %d lines, want one for the folder and one with the count:\n%s", lines, data)
	}
	if l := leaseOf(t, g, fileWrite("/w/d/a"), func() Counter { return nil }); l != nil {
		t.Errorf("nobody can count it: got %+v", l)
	}
}
