package heat

import (
	"fmt"
	"math"
	"testing"
	"time"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

const (
	read    = supervisorv1.FileAction_FILE_ACTION_READ
	write   = supervisorv1.FileAction_FILE_ACTION_WRITE
	blocked = supervisorv1.FileAction_FILE_ACTION_BLOCKED
)

var begin = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// after is the given number of milliseconds after the beginning.
func after(ms int) time.Time { return begin.Add(time.Duration(ms) * time.Millisecond) }

func touch(f *Files, now time.Time, path string, action supervisorv1.FileAction) {
	f.Touch(now, &supervisorv1.FileTouch{Path: path, Action: action})
}

// hot returns the hot files as text.
func hot(f *Files, now time.Time) (out []string) {
	for _, file := range f.Hot(now) {
		out = append(out, fmt.Sprintf("%s %.4f %v", file.GetPath(), file.GetHeat(), file.GetInContext()))
	}
	return out
}

func expect(t *testing.T, got []string, want ...string) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestContext_KeepsFileForThreeTurns(t *testing.T) {
	var f Files
	f.Turn(begin, true)
	touch(&f, begin, "/w/a", read)
	for turn := 1; turn <= 3; turn++ {
		f.Turn(after(1000*turn-500), false)
		f.Turn(after(1000*turn), true)
		expect(t, hot(&f, after(1000*turn)), "/w/a 1.0000 true")
	}
	f.Turn(after(4000), true)
	expect(t, hot(&f, after(4099)), "/w/a 1.0000 false")
	expect(t, hot(&f, after(4100)), "/w/a 0.9500 false")
	touch(&f, after(4200), "/w/a", write)
	expect(t, hot(&f, after(9000)), "/w/a 1.0000 true")
	if got := f.Hot(after(9000))[0]; got.GetTurn() != 5 || got.GetAction() != write || !got.GetTime().AsTime().Equal(after(4200)) {
		t.Errorf("it is shown as %v", got)
	}
}

func TestCooling_IsFasterDuringTurn(t *testing.T) {
	var f Files
	f.Turn(begin, true)
	touch(&f, begin, "/w/a", read)
	f.Leave(begin)
	expect(t, hot(&f, after(1000)), fmt.Sprintf("/w/a %.4f false", math.Pow(0.95, 10)))
	f.Turn(after(1000), false)
	expect(t, hot(&f, after(6000)), fmt.Sprintf("/w/a %.4f false", math.Pow(0.95, 20)))
	expect(t, hot(&f, after(1000+79*500)), fmt.Sprintf("/w/a %.4f false", math.Pow(0.95, 89)))
	expect(t, hot(&f, after(1000+80*500))) // 0.95^90 is below 0.01
	if got := f.Latest(after(1000+80*500), 10); len(got) != 1 || got[0].GetHeat() != 0 {
		t.Errorf("the counts are %v", got)
	}
}

func TestContext_HalvingDropsFiles(t *testing.T) {
	var f Files
	f.Turn(begin, true)
	touch(&f, begin, "/w/a", read)
	f.Filled(begin, 0) // not known yet
	expect(t, hot(&f, begin), "/w/a 1.0000 true")
	f.Filled(begin, 1000)
	f.Filled(begin, 501)
	expect(t, hot(&f, begin), "/w/a 1.0000 true")
	f.Filled(begin, 500)
	touch(&f, begin, "/w/b", read)
	expect(t, hot(&f, after(100)), "/w/b 1.0000 true", "/w/a 0.9500 false")
	f.Filled(after(100), 400) // more than half of what is left
	expect(t, hot(&f, after(100)), "/w/b 1.0000 true", "/w/a 0.9500 false")
}

func TestContext_ExcludesRefusedFiles(t *testing.T) {
	var f Files
	touch(&f, begin, "/w/a", read)
	touch(&f, begin, "/w/a", blocked)
	touch(&f, begin, "/w/.env", blocked)
	expect(t, hot(&f, begin), "/w/.env 1.0000 false", "/w/a 1.0000 true")
	expect(t, hot(&f, after(500)), "/w/a 1.0000 true", "/w/.env 0.9500 false")
}

func TestFiles_LimitsNumber(t *testing.T) {
	var f Files
	for i := range MaxFiles + 10 {
		touch(&f, begin, fmt.Sprintf("/w/%05d", i), read)
	}
	touch(&f, begin, "", read)
	touch(&f, begin, "/"+string(make([]byte, MaxPath)), read)
	all := f.Hot(begin)
	if len(all) != MaxFiles || all[0].GetPath() != "/w/10009" || all[MaxFiles-1].GetPath() != "/w/00010" {
		t.Errorf("%d files, from %s to %s", len(all), all[0].GetPath(), all[len(all)-1].GetPath())
	}
	if want := MaxFiles * (fileSize + len("/w/00000")); f.Size() != want {
		t.Errorf("the size is %d, want %d", f.Size(), want)
	}
	if got := f.Latest(begin, 2); len(got) != 2 || got[1].GetPath() != "/w/10009" {
		t.Errorf("the latest are %v", got)
	}
}

func TestFiles_LimitsTotalPathLength(t *testing.T) {
	var f Files
	for i := range 2 * MaxSize / MaxPath {
		touch(&f, begin, fmt.Sprintf("/%0*d", MaxPath-1, i), read)
	}
	if f.Size() > MaxSize || f.Size() < MaxSize-2*MaxPath {
		t.Errorf("the size is %d, want at most %d", f.Size(), MaxSize)
	}
}

func TestContext_EmptyAfterAgentStop(t *testing.T) {
	var f Files
	f.Turn(begin, true)
	touch(&f, begin, "/w/a", read)
	f.Filled(begin, 1000)
	f.Stop(begin)
	touch(&f, begin, "/w/b", read)
	f.Filled(begin, 10) // of the next run
	expect(t, hot(&f, after(500)), "/w/b 1.0000 true", "/w/a 0.9500 false")
}

func BenchmarkHot10000(b *testing.B) {
	var f Files
	for i := range MaxFiles {
		touch(&f, begin, fmt.Sprintf("/w/%05d", i), read)
	}
	for b.Loop() {
		f.Hot(begin)
	}
}

// BenchmarkSince10000 measures a read while one file of 10,000 is used between two reads.
func BenchmarkSince10000(b *testing.B) {
	var f Files
	for i := range MaxFiles {
		touch(&f, begin, fmt.Sprintf("/w/%05d", i), read)
	}
	mark := f.Since(Mark{}, begin).Mark
	for b.Loop() {
		touch(&f, begin, "/w/00500", read)
		c := f.Since(mark, begin)
		if mark = c.Mark; len(c.Files) != 1 {
			b.Fatalf("%d files have changed", len(c.Files))
		}
	}
}

// BenchmarkCooling10000 measures a read while 10,000 files cool down.
func BenchmarkCooling10000(b *testing.B) {
	var f Files
	for i := range MaxFiles {
		touch(&f, begin, fmt.Sprintf("/w/%05d", i), read)
	}
	f.Turn(begin, true)
	f.Leave(begin)
	mark := f.Since(Mark{}, begin).Mark
	for b.Loop() {
		f.Since(mark, after(100))
	}
}
