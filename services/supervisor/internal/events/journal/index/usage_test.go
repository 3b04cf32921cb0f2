package index

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/services/supervisor/internal/acp/frame"
	"github.com/acphost/acphost/services/supervisor/internal/events/journal"
	"github.com/acphost/acphost/services/supervisor/internal/events/usage"
)

// noon is when recordings begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// recorder is a journal whose clock a test advances.
type recorder struct {
	t   *testing.T
	j   *journal.Journal
	now time.Time
}

func record(t *testing.T, dir, instance string, content bool) *recorder {
	t.Helper()
	r := &recorder{t: t, now: noon}
	r.j = opened(t, journal.Options{Dir: dir, Agent: "one", Instance: instance, Content: content, Now: func() time.Time { return noon }})
	return r
}

func (r *recorder) client(line string) { r.pass(frame.ClientToAgent, line) }
func (r *recorder) agent(line string)  { r.pass(frame.AgentToClient, line) }

func (r *recorder) pass(d frame.Direction, line string) {
	r.j.Frame(frame.Frame{Direction: d, Time: r.now, Line: []byte(line + "\n")})
}

// open opens session s by a method.
func (r *recorder) open(method string) {
	r.client(fmt.Sprintf(`{"id":1,"method":%q,"params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}`, method))
	r.agent(`{"id":1,"result":{"sessionId":"s"}}`)
}

// turn has a turn pass, after which the session has cost so much.
func (r *recorder) turn(took time.Duration, tokens int, cost float64) {
	r.client(`{"id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"go"}]}}`)
	r.now = r.now.Add(took)
	r.cost(cost)
	r.agent(fmt.Sprintf(`{"id":"p","result":{"stopReason":"end_turn","usage":{"totalTokens":%d,"inputTokens":1,"outputTokens":2}}}`, tokens))
}

func prompted(id string) string {
	return fmt.Sprintf(`{"id":%q,"method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`, id)
}

func ended(id string) string { return fmt.Sprintf(`{"id":%q,"result":{"stopReason":"end_turn"}}`, id) }

func (r *recorder) cost(cost float64) {
	r.agent(fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":%v,"currency":"EUR"}}}}`, cost))
}

// took returns the usage that is recorded in a folder, as "quarter: turns tokens cost", the quarter counted from noon.
func took(t *testing.T, dir string) string {
	t.Helper()
	type sum struct {
		turns, tokens uint64
		cost          float64
	}
	sums := map[int]sum{}
	err := Usage(t.Context(), dir, noon.Add(-24*time.Hour), noon.Add(24*time.Hour), func(at time.Time, agent string, u *usage.Turns) error {
		if agent != "one" {
			t.Errorf("the agent is %q", agent)
		}
		quarter := int(at.Sub(noon) / usage.Quarter)
		s := sums[quarter]
		s.turns += u.Times.Count()
		s.tokens += u.Tokens.GetTotal()
		s.cost += u.Costs["EUR"]
		sums[quarter] = s
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, quarter := range slices.Sorted(maps.Keys(sums)) {
		s := sums[quarter]
		all = append(all, fmt.Sprintf("%d: %d %d %g", quarter, s.turns, s.tokens, s.cost))
	}
	return strings.Join(all, ", ")
}

func expectTook(t *testing.T, dir, want string) {
	t.Helper()
	if got := took(t, dir); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestUsage_CountsTurnsAndCosts(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.open("session/new")
	r.turn(time.Minute, 100, 0.5)
	r.turn(20*time.Minute, 50, 0.75)
	r.cost(0.25) // it does not fall
	r.cost(1)
	r.turn(time.Minute, 7, 1)
	closed(t, r.j)
	expectTook(t, dir, "0: 1 100 0.5, 1: 2 57 0.5")
	expectTook(t, dir, "0: 1 100 0.5, 1: 2 57 0.5") // nothing is counted twice
}

// Whatever was there when the index read last, the sums are those of reading all at once.
func TestUsage_IncrementalReadsAgree(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.open("session/new")
	r.turn(time.Minute, 100, 0.5)
	r.turn(20*time.Minute, 50, 0.75)
	r.open("session/load")
	r.turn(time.Minute, 1, 2)
	// Two concurrent turns, of which the first ends first; and one that never ends, while the session is opened again.
	r.client(prompted("p1"))
	r.client(prompted("p2"))
	r.now = r.now.Add(time.Minute)
	r.agent(ended("p1"))
	r.now = r.now.Add(time.Minute)
	r.agent(ended("p2"))
	r.client(prompted("p3"))
	r.cost(5)
	r.open("session/new")
	r.cost(1)
	r.turn(time.Minute, 2, 1)
	closed(t, r.j)
	const want = "0: 1 100 0.5, 1: 5 53 5.5"
	expectTook(t, dir, want)
	files, err := journal.Files(dir, false)
	if err != nil || len(files) != 1 {
		t.Fatalf("%q, %v", files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	lines := bytes.SplitAfter(data, []byte("\n"))
	for cut := 1; cut < len(lines); cut++ {
		again := filepath.Join(t.TempDir(), "journal")
		file := filepath.Join(again, noon.Format(time.DateOnly), filepath.Base(files[0]))
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		part := bytes.Join(lines[:cut], nil)
		part = append(part, lines[cut][:len(lines[cut])/2]...) // a line that is being written
		if err := os.WriteFile(file, part, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = took(t, again)
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if got := took(t, again); got != want {
			t.Errorf("read after %d lines: got %s, want %s", cut, got, want)
		}
	}
}

func TestUsage_DoesNotCountEarlierCost(t *testing.T) {
	for _, c := range []struct {
		method string
		first  float64 // that the second supervisor sees
		want   string
	}{
		{"session/load", 0.75, "0: 2 20 0.75"},
		{"session/load", 0.25, "0: 2 20 0.75"}, // its agent counts from 0 again
		{"session/new", 0.75, "0: 2 20 1.25"},  // another session of that id
	} {
		dir := filepath.Join(t.TempDir(), "journal")
		r := record(t, dir, "i", true)
		r.open("session/new")
		r.turn(time.Second, 10, 0.5)
		closed(t, r.j)
		r = record(t, dir, "j", true)
		r.now = noon.Add(time.Minute)
		r.open(c.method)
		r.turn(time.Second, 10, c.first)
		closed(t, r.j)
		if got := took(t, dir); got != c.want {
			t.Errorf("%s, %v: got %s, want %s", c.method, c.first, got, c.want)
		}
	}
}

func TestUsage_CountsTurnsWithoutContent(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", false)
	r.open("session/new")
	r.turn(time.Minute, 100, 0.5)
	closed(t, r.j)
	expectTook(t, dir, "0: 1 0 0")
}

func TestUsage_IgnoresHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.client(`{"id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/w","mcpServers":[]}}`)
	r.agent(update("s", `an answer that names "usage" and "state"`))
	r.agent(`{"id":1,"result":{}}`)
	r.turn(time.Minute, 1, 0)
	r.client(`{"id":"p","method":"session/prompt","params":{"sessionId":"s","prompt":[]}}`) // it never ends
	closed(t, r.j)
	expectTook(t, dir, "0: 1 1 0")
}

func TestUsage_DropsRemovedFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.open("session/new")
	r.turn(time.Minute, 100, 0.5)
	closed(t, r.j)
	expectTook(t, dir, "0: 1 100 0.5")
	if err := os.RemoveAll(filepath.Join(dir, noon.Format(time.DateOnly))); err != nil {
		t.Fatal(err)
	}
	expectTook(t, dir, "")
}

func TestUsage_EndsWithContext(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.open("session/new")
	r.turn(time.Minute, 100, 0.5)
	closed(t, r.j)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	none := func(time.Time, string, *usage.Turns) error { return nil }
	if err := Usage(ctx, dir, noon, noon.Add(time.Hour), none); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	wrong := errors.New("no")
	if err := Usage(t.Context(), dir, noon, noon.Add(time.Hour), func(time.Time, string, *usage.Turns) error { return wrong }); !errors.Is(err, wrong) {
		t.Errorf("got %v", err)
	}
}

// The number of a session's rows in the index depends on the elapsed time, not on the number of an agent's reports.
func TestUsage_LimitsRows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	r := record(t, dir, "i", true)
	r.open("session/new")
	const turns = 5000
	for i := range turns {
		r.turn(time.Millisecond, 1, float64(i+1))
		r.agent(fmt.Sprintf(`{"method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":%d.5,"currency":"A%c%c"}}}}`,
			i+1, 'A'+i/26%26, 'A'+i%26))
	}
	closed(t, r.j)
	x := openedIndex(t, dir)
	if err := x.Sync(t.Context()); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{"turns": 1, "costs": 8} {
		var n int
		if err := x.db.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil || n != want {
			t.Errorf("%s has %d rows, want %d; %v", table, n, want, err)
		}
	}
	var counted, kept int
	if err := x.usage(t.Context(), noon, noon.Add(time.Hour), func(_ time.Time, _ string, u *usage.Turns) error {
		counted += int(u.Times.Count())
		return nil
	}); err != nil || counted != turns {
		t.Errorf("%d turns, want %d; %v", counted, turns, err)
	}
	if err := x.db.QueryRow("SELECT length(times) FROM turns").Scan(&kept); err != nil || kept > 100 {
		t.Errorf("the durations take %d bytes; %v", kept, err)
	}
}

func TestUsage_TurnDuration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "journal")
	for i, content := range []bool{true, false} {
		r := record(t, dir, fmt.Sprint(i), content)
		r.open("session/new")
		r.client(prompted("never"))
		r.now = r.now.Add(time.Minute)
		r.client(prompted("p"))
		r.now = r.now.Add(time.Second)
		r.agent(ended("p"))
		r.now = noon.Add(30 * time.Hour) // the first is given up
		r.turn(time.Second, 1, 0)
		closed(t, r.j)
	}
	var sums []uint64
	s := usage.New([]time.Time{noon, noon.Add(time.Hour), noon.Add(48 * time.Hour)})
	if err := Usage(t.Context(), dir, noon, noon.Add(48*time.Hour), func(at time.Time, agent string, u *usage.Turns) error {
		s.Turns(at, agent, u)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Response().GetRows() {
		sums = append(sums, r.GetTurns(), r.GetTurnTimes().GetSumMicros())
	}
	if want := []uint64{2, 2e6, 2, 2e6}; !slices.Equal(sums, want) {
		t.Errorf("turns and their times: got %d, want %d", sums, want)
	}
	var behind int // files of which something is read again each time, because of a turn that never ended
	if err := openedIndex(t, dir).db.QueryRow("SELECT count(*) FROM sessions WHERE safe <> size").Scan(&behind); err != nil || behind != 0 {
		t.Errorf("%d files are read again; %v", behind, err)
	}
}
