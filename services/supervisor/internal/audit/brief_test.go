package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	permissionv1 "github.com/acphost/acphost/proto/acphost/permission/v1"
	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

func briefs(t *testing.T, file string, from, until time.Time) (all []Brief) {
	t.Helper()
	if err := Briefs(t.Context(), file, from, until, func(b *Brief) error { all = append(all, *b); return nil }); err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBriefsSayWhatTheRecordsSay(t *testing.T) {
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

func TestBriefsAreOfAllFilesThatMayHaveSome(t *testing.T) {
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

func TestBriefsEndWithTheirCaller(t *testing.T) {
	l := open(t, Options{})
	write(t, l, record("a"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Briefs(ctx, l.opts.File, time.Time{}, time.Now(), func(*Brief) error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wrong := errors.New("no")
	if err := Briefs(t.Context(), l.opts.File, time.Time{}, time.Now().Add(time.Hour), func(*Brief) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
	if err := Briefs(t.Context(), filepath.Join(t.TempDir(), "missing"), time.Time{}, time.Now(), nil); err != nil {
		t.Errorf("without a file: %v", err)
	}
}
