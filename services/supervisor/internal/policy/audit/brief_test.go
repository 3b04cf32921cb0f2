package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func briefs(t *testing.T, file string, from, until time.Time) (all []Brief) {
	t.Helper()
	for _, b := range sumOf(t, tally(file), from) {
		if !b.Time.Before(from) && b.Time.Before(until) {
			all = append(all, b)
		}
	}
	return all
}

// tally is a Tally that keeps all there is.
func tally(file string) *Tally[[]Brief] {
	return NewTally(file, func(all *[]Brief, b *Brief) { *all = append(*all, *b) }, func(*[]Brief) bool { return true })
}

func sumOf(t *testing.T, of *Tally[[]Brief], from time.Time) (all []Brief) {
	t.Helper()
	sums, err := of.Sums(t.Context(), from)
	if err != nil {
		t.Fatal(err)
	}
	for _, sum := range sums {
		all = append(all, *sum...)
	}
	return all
}

func TestBriefs_MatchRecords(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	l := open(t, Options{})
	r := &supervisorv1.AuditRecord{
		Time: timestamppb.New(at), Id: "1", Agent: "=1+\x1b\"ä", Door: "kernel", Verdict: "allow", Outcome: "allowed", LatencyMicros: 1234, AskedMillis: 5678,
		Repeats: 1 << 60, Action: &permissionv1.Action{Kind: "tool.execute", Agent: "another", RawInput: `{"verdict":"deny","time":"2020-01-01T00:00:00Z"}`},
	}
	note := &supervisorv1.AuditRecord{Time: timestamppb.New(at), Note: "the last line was torn"}
	later := &supervisorv1.AuditRecord{Time: timestamppb.New(at.Add(time.Hour)), Id: "2", Agent: "b", Door: "call", Verdict: "deny"}
	write(t, l, r, note, later)
	f, err := os.OpenFile(l.opts.File, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString("garbage\n{\"time\":\"never\"}\n\n" + `{"time":"2026-03-01T12:30:00Z","agent":7}` + "\n" + `{"time":"2026-03-01T12:30:00Z","agent":"torn`); err != nil {
		t.Fatal(err)
	}
	want := []Brief{
		{Time: at, Agent: "=1+\x1b\"ä", Door: "kernel", Verdict: "allow", LatencyMicros: 1234, AskedMillis: 5678, Repeats: 1 << 60},
		{Time: at.Add(time.Hour), Agent: "b", Door: "call", Verdict: "deny"},
	}
	if got := briefs(t, l.opts.File, at, at.Add(2*time.Hour)); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got := briefs(t, l.opts.File, at.Add(time.Nanosecond), at.Add(2*time.Hour)); len(got) != 1 || got[0].Agent != "b" {
		t.Errorf("after the first: %+v", got)
	}
	if got := briefs(t, l.opts.File, at, at.Add(time.Hour)); len(got) != 1 || got[0].Verdict != "allow" {
		t.Errorf("before the second: %+v", got)
	}
}

func TestBriefs_ReadRotatedFiles(t *testing.T) {
	l := open(t, Options{MaxBytes: MaxLine, Keep: 3})
	const n = 600 // in three files
	for i := range n {
		r := record(fmt.Sprint(i))
		r.Time = timestamppb.New(time.Now())
		write(t, l, r)
	}
	files, err := filepath.Glob(l.opts.File + "*")
	if err != nil || len(files) < 2 {
		t.Fatalf("%q, %v", files, err)
	}
	hour := time.Now().Add(-time.Hour)
	if got := len(briefs(t, l.opts.File, hour, hour.Add(2*time.Hour))); got != len(idsIn(t, l.opts.File)) {
		t.Errorf("%d decisions, want %d", got, len(idsIn(t, l.opts.File)))
	}
	// One that was written last before the time that is asked for is not read.
	for _, file := range files {
		if err := os.Chtimes(file, hour, hour.Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	if got := briefs(t, l.opts.File, hour, hour.Add(2*time.Hour)); len(got) != 0 {
		t.Errorf("%d decisions in files that are older", len(got))
	}
}

// idsIn are the decisions that Read tells.
func idsIn(t *testing.T, file string) (all []string) {
	t.Helper()
	for r, err := range Read(file, Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, r.GetId())
	}
	return all
}

func TestBriefs_EndWithContext(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tally(l.opts.File).Sums(ctx, time.Time{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if all := sumOf(t, tally(filepath.Join(t.TempDir(), "missing")), time.Time{}); len(all) != 0 {
		t.Errorf("without a file: %v", all)
	}
}

// Whatever becomes of the files between two calls, what is kept and what was written since are what a whole read finds.
func TestTally_MatchesWholeRead(t *testing.T) {
	l := open(t, Options{MaxBytes: MaxLine, Keep: 3})
	kept := tally(l.opts.File)
	n := 0
	more := func(count int) {
		for range count {
			n++
			r := record(fmt.Sprint(n))
			r.Agent = fmt.Sprint("agent ", n)
			write(t, l, r)
		}
	}
	same := func(what string) {
		t.Helper()
		got, want := sumOf(t, kept, time.Time{}), sumOf(t, tally(l.opts.File), time.Time{})
		if len(got) != len(want) || len(want) > 0 && !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %d decisions are kept, and a whole read finds %d, or others", what, len(got), len(want))
		}
		if len(kept.parts) > 4 {
			t.Fatalf("%s: %d files are known", what, len(kept.parts))
		}
	}
	more(3)
	same("at first")
	same("with nothing new")
	for i := range 40 { // files are put aside, and the oldest are removed
		more(1 + 37*i%150)
		same(fmt.Sprint("after ", n))
	}
	if files, err := filepath.Glob(l.opts.File + ".*"); err != nil || len(files) != 3 {
		t.Fatalf("%q were put aside (%v), want 3", files, err)
	}
	all := sumOf(t, kept, time.Time{})

	// A line that is not whole counts when it is.
	text, err := os.ReadFile(l.opts.File)
	if err != nil {
		t.Fatal(err)
	}
	line := string(text[strings.LastIndexByte(string(text[:len(text)-1]), '\n')+1:])
	put := func(text string) {
		t.Helper()
		f, err := os.OpenFile(l.opts.File, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(line[:40])
	if got := sumOf(t, kept, time.Time{}); len(got) != len(all) {
		t.Errorf("with half a line, %d decisions, want %d", len(got), len(all))
	}
	put(line[40:])
	if got := sumOf(t, kept, time.Time{}); len(got) != len(all)+1 {
		t.Errorf("with the other half, %d decisions, want %d", len(got), len(all)+1)
	}
	same("with a line in two pieces")

	// What was read is not read again: if it were, the change would show.
	if err := os.WriteFile(l.opts.File, []byte(strings.Replace(string(text), "agent", "other", 1)+line), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := sumOf(t, kept, time.Time{}); len(got) != len(all)+1 || strings.Contains(fmt.Sprint(got), "other") {
		t.Error("what was read is read again")
	}
	// A file that was cut off, or has other contents, is read anew.
	other := strings.Replace(line, "agent", "other", 1)
	for _, text := range []string{line, "", strings.Repeat(line, 400), strings.Repeat(other, 400), strings.Repeat(other, 401), other} {
		if err := os.WriteFile(l.opts.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		same(fmt.Sprintf("with %d other bytes", len(text)))
	}
	if err := os.Remove(l.opts.File); err != nil {
		t.Fatal(err)
	}
	same("without the last file")
}

func TestTally_DropsTooLargeSums(t *testing.T) {
	l := open(t, Options{})
	kept := NewTally(l.opts.File, func(all *[]Brief, b *Brief) { *all = append(*all, *b) }, func(all *[]Brief) bool { return len(*all) < 3 })
	for n := 1; n < 6; n++ {
		write(t, l, record(fmt.Sprint(n)))
		if got := sumOf(t, kept, time.Time{}); len(got) != n || (len(kept.parts) == 1) != (n < 3) {
			t.Errorf("after %d: %d decisions, %d files are kept", n, len(got), len(kept.parts))
		}
	}
}
