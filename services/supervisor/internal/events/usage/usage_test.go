package usage

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata" // days of a zone that has summer time
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	supervisorv1 "github.com/acphost/acphost/proto/acphost/supervisor/v1"
)

// daysOf returns the given number of days from one on, in the time zone of a place.
func daysOf(t *testing.T, place string, first string, n int) []time.Time {
	t.Helper()
	zone, err := time.LoadLocation(place)
	if err != nil {
		t.Fatal(err)
	}
	day, err := time.ParseInLocation(time.DateOnly, first, zone)
	if err != nil {
		t.Fatal(err)
	}
	var days []time.Time
	for i := range n + 1 {
		days = append(days, time.Date(day.Year(), day.Month(), day.Day()+i, 0, 0, 0, 0, zone))
	}
	return days
}

func one(took time.Duration) *Turns {
	t := &Turns{}
	t.End(took, nil)
	return t
}

func decided(s *Sums, at time.Time, agent string, d *Decision) {
	var one Decisions
	one.Add(at, agent, d)
	s.Decisions(&one)
}

func TestDays_FollowCallersTimeZone(t *testing.T) {
	for _, c := range []struct {
		place, first string
		hours        int // of the second day
	}{
		{"Europe/Berlin", "2026-03-28", 23},
		{"Europe/Berlin", "2026-10-24", 25},
		{"Asia/Kathmandu", "2026-03-28", 24}, // 05:45 ahead of UTC
		{"UTC", "2026-03-28", 24},
	} {
		days := daysOf(t, c.place, c.first, 3)
		if got := days[2].Sub(days[1]).Hours(); got != float64(c.hours) {
			t.Fatalf("%s: the day has %v hours, want %d", c.place, got, c.hours)
		}
		s := New(days)
		for at := days[0].Add(-time.Hour); at.Before(days[3].Add(time.Hour)); at = at.Add(Quarter) {
			s.Turns(at, "a", one(time.Second))
			decided(s, at, "a", &Decision{Verdict: "allow"})
		}
		rows := s.Response().GetRows()
		if len(rows) != 3 {
			t.Fatalf("%s: %d rows", c.place, len(rows))
		}
		for i, hours := range []int{24, c.hours, 24} {
			if r := rows[i]; r.GetDay() != uint32(i) || r.GetTurns() != uint64(4*hours) || r.GetAllowed() != uint64(4*hours) {
				t.Errorf("%s: day %d has %d turns and %d decisions, want %d", c.place, r.GetDay(), r.GetTurns(), r.GetAllowed(), 4*hours)
			}
		}
	}
}

func TestDecisions_CountedByVerdict(t *testing.T) {
	days := daysOf(t, "UTC", "2026-03-01", 1)
	s := New(days)
	for _, d := range []Decision{
		{Verdict: "allow", Policy: 100 * time.Microsecond}, {Verdict: "allow", Repeats: 5, Policy: time.Hour},
		{Verdict: "deny", Policy: 200 * time.Microsecond}, {Verdict: "ask", Policy: 300 * time.Microsecond, User: 9 * time.Second},
		{Verdict: "allow", Unasked: true, Policy: time.Hour}, {Verdict: "perhaps", Policy: time.Hour},
	} {
		decided(s, days[0], "a", &d)
	}
	decided(s, days[1], "a", &Decision{Verdict: "allow"}) // of the next day
	rows := s.Response().GetRows()
	if len(rows) != 1 {
		t.Fatal(rows)
	}
	r := rows[0]
	if r.GetAllowed() != 6 || r.GetDenied() != 1 || r.GetAsked() != 1 || r.GetUnasked() != 1 {
		t.Errorf("got %v", r)
	}
	if p := r.GetPolicyTimes(); p.GetCount() != 3 || p.GetSumMicros() != 600 {
		t.Errorf("the policy's times are %v", p)
	}
	if u := r.GetUserTimes(); u.GetCount() != 1 || u.GetSumMicros() != 9_000_000 {
		t.Errorf("the user's times are %v", u)
	}
}

func TestTimes_QuantilesAreAccurate(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var all []uint64
	var times, again Times
	for range 10_000 {
		micros := uint64(math.Exp(random.Float64() * 30)) // up to 120 days
		all = append(all, micros)
		times.Add(time.Duration(micros) * time.Microsecond)
	}
	slices.Sort(all)
	stored, err := times.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.UnmarshalBinary(stored); err != nil {
		t.Fatal(err)
	}
	for _, q := range []float64{0, 0.01, 0.5, 0.95, 1} {
		want := float64(all[max(0, int(math.Ceil(q*float64(len(all))))-1)])
		got := float64(again.quantile(q))
		if got < 0.9*want || got > 1.1*want {
			t.Errorf("the %v quantile is %v, want %v", q, got, want)
		}
	}
	if again.n != times.n || again.sum != times.sum {
		t.Errorf("%d of %d µs became %d of %d µs", times.n, times.sum, again.n, again.sum)
	}
	for _, n := range []uint64{0, 1, 15, 16, 17, 31, 32, 1 << 20, math.MaxUint64} {
		if got := bucketOf(middle(bucketOf(n))); got != bucketOf(n) {
			t.Errorf("the middle of the bucket of %d is in bucket %d, not in %d", n, got, bucketOf(n))
		}
	}
	for _, bad := range [][]byte{nil, {0x80}, {1, 2}, {1, 0xff, 0xff, 0x7f, 1}} {
		if new(Times).UnmarshalBinary(bad) == nil {
			t.Errorf("%x was taken for durations", bad)
		}
	}
}

func TestTurns_LimitReportedValues(t *testing.T) {
	days := daysOf(t, "UTC", "2026-03-01", 1)
	turns := &Turns{}
	turns.End(-time.Second, &supervisorv1.TokenUsage{Total: math.MaxUint64, Input: 5})
	turns.End(time.Second, &supervisorv1.TokenUsage{Total: math.MaxUint64})
	for _, amount := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), -1, 0, 1e300, 0.5} {
		turns.Spend(amount, "USD")
	}
	for i := range 100 {
		turns.Spend(1, fmt.Sprintf("A%c%c", 'A'+i/26, 'A'+i%26))
	}
	s := New(days)
	s.Turns(days[0], "a", turns)
	r := s.Response().GetRows()[0]
	if r.GetTokens().GetTotal() != 2*maxTokens || r.GetTokens().GetInput() != 5 || r.GetTurnTimes().GetSumMicros() != 1e6 {
		t.Errorf("got %v", r)
	}
	sum := 0.0
	for _, c := range r.GetCosts() {
		sum += c.GetAmount()
	}
	if len(r.GetCosts()) != maxCurrencies || sum != 2*maxCost+100.5 {
		t.Errorf("%d currencies, %v together: %v", len(r.GetCosts()), sum, r.GetCosts())
	}
	for code, want := range map[string]string{"USD": "USD", "": "", "usd": "", "DOLLARS": "", "=1+": "", "ÄÖ": ""} {
		if got := Currency(code); got != want {
			t.Errorf("%q is %q", code, got)
		}
	}
}

func TestAgents_LimitsNumber(t *testing.T) {
	days := daysOf(t, "UTC", "2026-01-01", 366)
	s := New(days)
	const agents = 300
	long := strings.Repeat("x", 200)
	full := &Turns{}
	for i := range 100 {
		full.End(time.Duration(1)<<(i%60), &supervisorv1.TokenUsage{Total: maxTokens, Input: maxTokens, Output: maxTokens, Thought: maxTokens, CachedRead: maxTokens, CachedWrite: maxTokens})
		full.Spend(0.1, fmt.Sprintf("A%c%c", 'A'+i/26, 'A'+i%26))
	}
	for _, day := range days[:366] {
		for i := range agents {
			decided(s, day, fmt.Sprint(i, " agent ", long), &Decision{Verdict: "allow", Policy: time.Hour, User: time.Hour})
			if i < maxAgents {
				s.Turns(day, fmt.Sprint(i, " agent ", long), full)
			}
		}
	}
	out := s.Response()
	if got, most := len(out.GetRows()), 366*(maxAgents+1); got != most {
		t.Errorf("%d rows, want %d", got, most)
	}
	if out.GetOtherAgents() != maxKnown-maxAgents+1 {
		t.Errorf("%d other agents", out.GetOtherAgents())
	}
	var decisions, turns uint64
	named := map[string]bool{}
	for _, r := range out.GetRows() {
		decisions += r.GetAllowed()
		if r.GetAgent() != "" { // those that did most
			turns += r.GetTurns()
		}
		named[r.GetAgent()] = true
	}
	if decisions != 366*agents || turns != 366*100*maxAgents || len(named) != maxAgents+1 {
		t.Errorf("%d decisions, %d turns of the busiest, %d names", decisions, turns, len(named))
	}
	if size := proto.Size(out); size > 4<<20 || size < 1<<20 { // gRPC clients accept 4 MiB by default
		t.Errorf("the answer has %d bytes", size)
	}
}

func TestAgents_HostileNamesStayDistinctAndShort(t *testing.T) {
	days := daysOf(t, "UTC", "2026-03-01", 1)
	s := New(days)
	names := []string{"", "\xff\xfe", "=cmd|' /C calc'!A0", "<script>", "a\x00b\n", strings.Repeat("ä", 5000)}
	for _, name := range names {
		s.Turns(days[0], name, one(time.Second))
	}
	rows := s.Response().GetRows()
	seen := map[string]uint64{}
	for _, r := range rows {
		if len(r.GetAgent()) > maxAgentName || !utf8.ValidString(r.GetAgent()) || r.GetAgent() == "" {
			t.Errorf("the agent is %q", r.GetAgent())
		}
		seen[r.GetAgent()] += r.GetTurns()
	}
	if seen["=cmd|' /C calc'!A0"] != 1 || seen["<script>"] != 1 || seen["?"] != 2 || len(seen) != 5 {
		t.Errorf("got %v", seen)
	}
}
