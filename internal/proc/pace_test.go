package proc

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace_UsesMoreProcessorsForManyCalls(t *testing.T) {
	all := runtime.NumCPU()
	if all < 2 {
		t.Skip("there is one processor only, so that nothing can be chosen")
	}
	t.Setenv("GOMAXPROCS", "")
	synctest.Test(t, func(t *testing.T) {
		p := NewPace()
		defer p.Close()
		want := func(when string, n int) {
			t.Helper()
			if got := runtime.GOMAXPROCS(0); got != n {
				t.Errorf("%s: %d processors, want %d", when, got, n)
			}
		}
		want("at the start", all)
		time.Sleep(2 * paceQuiet)
		synctest.Wait()
		want("after a quiet start", 1)
		p.Enter()
		p.Enter()
		want("with two calls", 1)
		p.Enter()
		want("with three calls", all)
		p.Leave()
		time.Sleep(paceQuiet / 2)
		p.Enter()
		p.Leave()
		synctest.Wait()
		want("soon after", all)
		time.Sleep(2 * paceQuiet)
		synctest.Wait()
		want("after a quiet while", 1)
		p.Leave()
		p.Leave()
		p.Close()
		want("in the end", all)
	})
}

func TestPace_KeepsConfiguredGOMAXPROCS(t *testing.T) {
	t.Setenv("GOMAXPROCS", "2")
	before := runtime.GOMAXPROCS(0)
	p := NewPace()
	defer p.Close()
	p.Enter()
	p.Leave()
	if got := runtime.GOMAXPROCS(0); got != before {
		t.Errorf("%d processors, want the %d that there were", got, before)
	}
}
