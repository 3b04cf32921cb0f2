package audit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/acphost/acphost/internal/testkit"
	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func TestFilter_SelectsRecords(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := open(t, Options{})
	b := record("b")
	b.Time = timestamppb.New(at.Add(time.Hour))
	b.SessionId, b.Agent, b.Verdict, b.Outcome, b.Rule, b.Door = "session-2", "gemini", "ask", "denied", "no-writes", "request"
	b.Action = &permissionv1.Action{Kind: "fs.write", Title: "Write It", Paths: []*permissionv1.PathAccess{{Path: "/w/link", ResolvedPath: "/w/Real"}}}
	c := &supervisorv1.AuditRecord{Time: timestamppb.New(at.Add(2 * time.Hour)), Supervisor: 7, Note: "the last line was torn"}
	write(t, l, record("a"), b, c)
	for _, tt := range []struct {
		name string
		f    Filter
		want string
	}{
		{"nothing", Filter{}, "a b note"},
		{"since", Filter{Since: at.Add(time.Hour)}, "b note"},
		{"until", Filter{Until: at.Add(time.Hour)}, "a"},
		{"session", Filter{Session: "session-2"}, "b"},
		{"a part of a session's id", Filter{Session: "session"}, ""},
		{"agent", Filter{Agent: "claude"}, "a"},
		{"verdict", Filter{Verdict: "ask"}, "b"},
		{"outcome", Filter{Outcome: "allowed"}, "a"},
		{"rule", Filter{Rule: "git"}, "a"},
		{"door", Filter{Door: "request"}, "b"},
		{"kind", Filter{Kind: "terminal.create"}, "a"},
		{"kinds", Filter{Kind: "fs.*"}, "b"},
		{"text of a command", Filter{Text: "GIT status"}, "a"},
		{"text of a path", Filter{Text: "/w/LINK"}, "b"},
		{"text of a resolved path", Filter{Text: "real"}, "b"},
		{"text of a title", Filter{Text: "write it"}, "b"},
		{"text of a note", Filter{Text: "torn"}, "note"},
		{"two things", Filter{Verdict: "ask", Agent: "claude"}, ""},
		{"the newest", Filter{Limit: 1}, "note"},
		{"the newest two", Filter{Limit: 2}, "b note"},
		{"the newest of some", Filter{Kind: "*", Limit: 1, Until: at.Add(90 * time.Minute)}, "b"},
		{"more than there are", Filter{Limit: 10}, "a b note"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := ids(readAll(t, l.opts.File, tt.f)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func TestRead_RotatedFilesOldestFirst(t *testing.T) {
	l := open(t, Options{MaxBytes: MaxLine, Keep: 3})
	r := record("")
	r.Action.RawInput = `"` + strings.Repeat("x", 30<<10) + `"`
	for i := range 9 { // two in a file
		r.Id = fmt.Sprint(i)
		write(t, l, r)
	}
	if got := ids(readAll(t, l.opts.File, Filter{})); got != "2 3 4 5 6 7 8" {
		t.Errorf("got %q", got)
	}
	if got := ids(readAll(t, l.opts.File, Filter{Limit: 3})); got != "6 7 8" {
		t.Errorf("got %q", got)
	}
	for n, want := range map[int]bool{1: true, 3: true, 4: false} {
		info, err := os.Stat(rotatedName(l.opts.File, n))
		if (err == nil) != want || err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("file %d: %v, %v", n, info, err)
		}
	}
}

func TestRead_ReportsAndSkipsInvalidLines(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	appendTo(t, l.opts.File, "garbage\n{}\n"+strings.Repeat("x", maxRead)+"\n\n")
	write(t, l, record("b"))
	appendTo(t, l.opts.File, `{"time":"2026`)
	var got, lines []string
	for r, err := range Read(l.opts.File, Filter{}) {
		if err != nil {
			var at *LineError
			if !errors.As(err, &at) || at.File != l.opts.File {
				t.Fatal(err)
			}
			lines = append(lines, fmt.Sprint(at.Line))
			continue
		}
		got = append(got, r.GetId())
	}
	if strings.Join(got, " ") != "a b" || strings.Join(lines, " ") != "2 3 4" {
		t.Errorf("got the records %q, and complaints of the lines %q", got, lines)
	}
}

func TestRead_MissingFile(t *testing.T) {
	for _, err := range Read(filepath.Join(t.TempDir(), "state", "audit.jsonl"), Filter{}) {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v", err)
		}
	}
}

func TestRead_StopsWithItsConsumer(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"), record("b"))
	appendTo(t, l.opts.File, "garbage\n")
	for _, f := range []Filter{{}, {Limit: 5}} {
		for range Read(l.opts.File, f) {
			break
		}
		for range Follow(t.Context(), l.opts.File, Filter{Limit: 5}) {
			break
		}
	}
}

func appendTo(t testing.TB, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
}

// following runs Follow and hands on what it yields.
func following(t *testing.T, file string, f Filter) <-chan string {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	out, done := make(chan string), make(chan struct{})
	go func() {
		defer close(done)
		for r, err := range Follow(ctx, file, f) {
			text := r.GetId()
			if err != nil {
				text = "error"
				t.Log(err)
			}
			select {
			case out <- text:
			case <-ctx.Done():
				return
			}
		}
	}()
	t.Cleanup(func() { stop(); <-done })
	return out
}

func expect(t *testing.T, got <-chan string, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case g := <-got:
			if g != w {
				t.Fatalf("got %q, want %q", g, w)
			}
		case <-testkit.After():
			t.Fatalf("%q does not come", w)
		}
	}
}

func TestFollow_ContinuesAfterNewestRecords(t *testing.T) {
	l := open(t, Options{MaxBytes: MaxLine, Keep: 3})
	write(t, l, record("a"), record("b"), record("c"))
	all := following(t, l.opts.File, Filter{Limit: 2})
	expect(t, all, "b", "c")
	write(t, l, record("d"))
	expect(t, all, "d")

	// Put aside more than once before it looks again.
	big := record("")
	big.Action.RawInput = `"` + strings.Repeat("x", 50<<10) + `"`
	for i := range 3 {
		big.Id = fmt.Sprint(i)
		write(t, l, big)
	}
	expect(t, all, "0", "1", "2")
	write(t, l, record("e"))
	expect(t, all, "e")
}

func TestNewest_SkipsInvalidLines(t *testing.T) {
	l := open(t, Options{})
	for _, id := range []string{"a", "b", "c"} {
		write(t, l, record(id))
	}
	appendTo(t, l.opts.File, "garbage\n\n   \n")
	write(t, l, record("d"))
	var got, bad []string
	for r, err := range Read(l.opts.File, Filter{Limit: 3}) {
		if err != nil {
			bad = append(bad, err.Error())
			continue
		}
		got = append(got, r.GetId())
	}
	if strings.Join(got, " ") != "b c d" || len(bad) != 1 || !strings.Contains(bad[0], ":4: ") {
		t.Errorf("got %q, and %q", got, bad)
	}
}

func TestWatch_SendsNewestThenChanges(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"), record("b"), record("c"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	batches, done := make(chan string), make(chan error, 1)
	go func() {
		done <- Watch(ctx, l.opts.File, Filter{Limit: 2}, func(all []*supervisorv1.AuditRecord) error {
			select {
			case batches <- ids(all):
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	}()
	if got := <-batches; got != "b c" {
		t.Errorf("first came %q", got)
	}
	write(t, l, record("d"))
	if got := <-batches; got != "d" {
		t.Errorf("then came %q", got)
	}
	appendTo(t, l.opts.File, "garbage\n")
	if got := <-batches; got != "note" {
		t.Errorf("for a line that cannot be read came %q", got)
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	failed := errors.New("no more")
	calls := 0
	if err := Watch(t.Context(), filepath.Join(t.TempDir(), "none"), Filter{Limit: 2}, func(all []*supervisorv1.AuditRecord) error {
		calls++
		return failed
	}); !errors.Is(err, failed) || calls != 1 {
		t.Errorf("without a file: %d calls, %v", calls, err)
	}
}

func TestFollow_WaitsForFileAndWholeLines(t *testing.T) {
	file := filepath.Join(t.TempDir(), "state", "audit.jsonl")
	some := following(t, file, Filter{Verdict: "deny", Limit: 10}) // it may look before the first, or after
	l := open(t, Options{File: file})
	denied := func(id string) *supervisorv1.AuditRecord {
		r := record(id)
		r.Verdict = "deny"
		return r
	}
	write(t, l, record("a"), denied("b"))
	expect(t, some, "b")
	line, err := format(denied("torn"))
	if err != nil {
		t.Fatal(err)
	}
	appendTo(t, file, string(line[:100]))
	write(t, l, denied("c")) // which cuts the torn one off
	expect(t, some, "c")
}

func FuzzRead(f *testing.F) {
	line, err := format(record("a"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(line))
	f.Add(string(line) + "x\n" + string(line[:50]))
	f.Add("\n\n{}\n")
	f.Fuzz(func(t *testing.T, content string) {
		file := filepath.Join(t.TempDir(), "audit.jsonl")
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		n := 0
		for r, err := range Read(file, Filter{}) {
			if n++; (r == nil) == (err == nil) {
				t.Fatalf("got %v and %v", r, err)
			}
		}
		if n > strings.Count(content, "\n") {
			t.Errorf("%d records or errors of %d lines", n, strings.Count(content, "\n"))
		}
		// A supervisor that opens it goes on behind its last line.
		l := open(t, Options{File: file})
		write(t, l, record("mine"))
		last := ""
		for r := range Read(file, Filter{}) {
			last = r.GetId()
		}
		if last != "mine" {
			t.Errorf("the last record is %q", last)
		}
	})
}

func TestFollow_ErrorsHaveNoLineNumber(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	parts, err := openAll(l.opts.File, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer closeAll(parts)
	if err := parts[0].seekEnd(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(l.opts.File, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("nonsense\n"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, err = parts[0].record()
	if bad, ok := errors.AsType[*LineError](err); !ok || bad.Line != 0 {
		t.Errorf("the line is %v, want an error without a number", err)
	}
}
