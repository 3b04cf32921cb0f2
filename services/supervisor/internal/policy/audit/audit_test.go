package audit

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestMain(m *testing.M) {
	if role := os.Getenv(childRole); role != "" {
		os.Exit(child(role))
	}
	goleak.VerifyTestMain(m)
}

// record is a decision as they come: a command that a rule has allowed.
func record(id string) *supervisorv1.AuditRecord {
	return &supervisorv1.AuditRecord{
		Time: timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Id: id, Supervisor: 7, SessionId: "session-1",
		Agent: "claude", Door: "call", Verdict: "allow", Rule: "git", Reason: "rule git", LatencyMicros: 120,
		AnsweredBy: "policy", Outcome: "allowed", Plugin: "permd 0.1.0", PolicyDigest: "sha256:" + strings.Repeat("a", 64),
		Action: &permissionv1.Action{
			Kind: "terminal.create", Agent: "claude", SessionId: "session-1", Door: permissionv1.Door_DOOR_CALL,
			Method: "terminal/create", Roots: []string{"/w"}, ResolvedRoots: []string{"/w"},
			Command: &permissionv1.Command{Text: "git status -s > out", SubCommands: []*permissionv1.SubCommand{{
				Argv:         []string{"git", "status", "-s"},
				Redirections: []*permissionv1.Redirection{{Operator: ">", Path: "out", ResolvedPath: "/w/out"}},
			}}},
			Paths: []*permissionv1.PathAccess{{Path: "/w/out", ResolvedPath: "/w/out", Access: permissionv1.Access_ACCESS_WRITE, InsideRoots: true}},
		},
	}
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	if o.File == "" {
		o.File = filepath.Join(t.TempDir(), "state", "audit.jsonl")
	}
	l, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

func write(t testing.TB, l *Log, records ...*supervisorv1.AuditRecord) {
	t.Helper()
	for _, r := range records {
		if err := l.Write(r); err != nil {
			t.Fatal(err)
		}
	}
}

// readAll returns the records that f wants, and fails on any error.
func readAll(t testing.TB, file string, f Filter) (records []*supervisorv1.AuditRecord) {
	t.Helper()
	for r, err := range Read(file, f) {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

func ids(records []*supervisorv1.AuditRecord) string {
	var all []string
	for _, r := range records {
		if r.GetNote() != "" {
			all = append(all, "note")
		} else {
			all = append(all, r.GetId())
		}
	}
	return strings.Join(all, " ")
}

func TestRead_ReturnsWrittenRecord(t *testing.T) {
	l := open(t, Options{})
	r := record("a")
	before := proto.CloneOf(r)
	write(t, l, r)
	if !proto.Equal(r, before) {
		t.Error("Write changed what it was given")
	}
	got := readAll(t, l.opts.File, Filter{})
	if len(got) != 1 || !proto.Equal(got[0], r) {
		t.Errorf("got %v, want %v", got, r)
	}
}

func TestFormat_IsCompactAndDeterministic(t *testing.T) {
	const want = `{"time":"2026-03-01T12:00:00Z","id":"a","supervisor":7,"session_id":"session-1","agent":"claude","door":"call",` +
		`"action":{"kind":"fs.read","door":"DOOR_CALL","paths":[{"path":"/w/a b","access":"ACCESS_READ"}]},` +
		`"verdict":"allow","latency_micros":12,"answered_by":"policy","outcome":"allowed"}` + "\n"
	for range 20 {
		line, err := format(&supervisorv1.AuditRecord{
			Time: timestamppb.New(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)), Id: "a", Supervisor: 7, SessionId: "session-1",
			Agent: "claude", Door: "call", Verdict: "allow", LatencyMicros: 12, AnsweredBy: "policy", Outcome: "allowed",
			Action: &permissionv1.Action{Kind: "fs.read", Door: permissionv1.Door_DOOR_CALL,
				Paths: []*permissionv1.PathAccess{{Path: "/w/a b", Access: permissionv1.Access_ACCESS_READ}}},
		})
		if err != nil || string(line) != want {
			t.Fatalf("got %s (%v), want %s", line, err, want)
		}
	}
}

func TestOpen_MakesPrivateFileAndFolder(t *testing.T) {
	l := open(t, Options{})
	for path, want := range map[string]os.FileMode{l.opts.File: 0o600, filepath.Dir(l.opts.File): 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("%s has mode %v (%v), want %v", path, info.Mode().Perm(), err, want)
		}
	}
}

func TestOpen_RejectsFileWritableByOthers(t *testing.T) {
	for name, spoil := range map[string]func(file string) error{
		"the file can be written by the group": func(f string) error {
			return errors.Join(os.WriteFile(f, nil, 0o600), os.Chmod(f, 0o620))
		},
		"the folder can be written by all": func(f string) error { return os.Chmod(filepath.Dir(f), 0o777) },
		"a symbolic link":                  func(f string) error { return os.Symlink(filepath.Join(filepath.Dir(f), "other"), f) },
		"a folder":                         func(f string) error { return os.Mkdir(f, 0o700) },
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "audit.jsonl")
			if err := spoil(file); err != nil {
				t.Fatal(err)
			}
			if l, err := Open(Options{File: file}); err == nil {
				_ = l.Close()
				t.Error("it was opened")
			}
		})
	}
}

func TestWrite_FailsAfterClose(t *testing.T) {
	l := open(t, Options{})
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(record("a")); !errors.Is(err, ErrClosed) {
		t.Errorf("got %v", err)
	}
}

func BenchmarkWrite(b *testing.B) {
	l := open(b, Options{})
	r := record("a")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := l.Write(r); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
