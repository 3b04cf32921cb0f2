package jsonrpc

import (
	"fmt"
	"sort"
	"sync"
	"sync/atomic"
	"testing"
)

func TestCanonicalID_EqualIDsMatch(t *testing.T) {
	same := [][]string{
		{`1`, `1.0`, `1e0`, `10e-1`, `0.1E+1`},
		{`"1"`, `"\u0031"`},
		{`null`, ``},
		{`"null"`},
		{`0`, `-0`, `0.000`, `0e9`},
		{`100`, `1e2`, `1.00E2`},
		{`-7`, `-7.0`},
		{`"a/b"`, `"a\/b"`},
		{`123456789012345678901234567890`, `12345678901234567890123456789e1`},
		{`1e30`, `1000000000000000000000000000000`},
		{`1.5`, `15e-1`},
		{`1e99999999999999999999`},
		{`2e99999999999999999999`},
		{`"\ud800"`},
		{`"\ud801"`},
		{`""`},
	}
	seen := map[string]int{}
	for i, group := range same {
		for _, raw := range group {
			c := CanonicalID([]byte(raw))
			if j, ok := seen[c]; ok && j != i {
				t.Errorf("%s equals one of %v", raw, same[j])
			}
			if c != CanonicalID([]byte(group[0])) {
				t.Errorf("%s is %q, but %s is %q", raw, c, group[0], CanonicalID([]byte(group[0])))
			}
			seen[c] = i
		}
	}
}

func TestCalls_IDsInFlightAreUnique(t *testing.T) {
	var f InFlight[string]
	if !f.Add([]byte(`1`), "one") || !f.Add([]byte(`"1"`), "text") {
		t.Fatal("fresh ids were refused")
	}
	if f.Add([]byte(`1.0`), "again") {
		t.Error("an id in flight was taken again")
	}
	if call, ok := f.Get([]byte(`1e0`)); call != "one" || !ok {
		t.Errorf("got %q, %v", call, ok)
	}
	if call, ok := f.Remove([]byte(`"\u0031"`)); call != "text" || !ok {
		t.Errorf("took %q, %v", call, ok)
	}
	if _, ok := f.Remove([]byte(`"1"`)); ok {
		t.Error("a call was taken twice")
	}
	f.Add([]byte(`null`), "null")
	if f.Len() != 2 {
		t.Errorf("%d calls in flight, want 2", f.Len())
	}
	all := f.Drain()
	sort.Strings(all)
	if fmt.Sprint(all) != "[null one]" || f.Len() != 0 {
		t.Errorf("drained %v, %d left", all, f.Len())
	}
}

func TestCalls_InFlightAreClaimedOnce(t *testing.T) {
	var f InFlight[int]
	var taken atomic.Int32
	var takers sync.WaitGroup
	for i := range 100 {
		f.Add(fmt.Append(nil, i), i)
	}
	for range 8 {
		takers.Go(func() {
			for i := range 100 {
				if _, ok := f.Remove(fmt.Append(nil, i)); ok {
					taken.Add(1)
				}
			}
		})
	}
	takers.Wait()
	if taken.Load() != 100 {
		t.Errorf("100 calls were taken %d times", taken.Load())
	}
}

func TestNewID_Differs(t *testing.T) {
	if a, b := NewID(), NewID(); a == b || len(a) < 26 {
		t.Errorf("got %q and %q", a, b)
	}
}
