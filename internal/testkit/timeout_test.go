package testkit

import (
	"testing"
	"time"
)

func TestTimeout_ScalesWithLoad(t *testing.T) {
	for _, c := range []struct {
		name string
		load float64
		cpus int
		want time.Duration
	}{
		{"idle", 0, 2, baseTimeout},
		{"every processor busy", 2, 2, 2 * baseTimeout},
		{"twelve processes on two processors", 12, 2, 7 * baseTimeout},
		{"the same on sixteen", 12, 16, baseTimeout * 7 / 4},
		{"bounded", 1000, 2, maxTimeoutFactor * baseTimeout},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := scaleAt(baseTimeout, c.load, c.cpus); got != c.want {
				t.Errorf("load %v on %d processors: %v, want %v", c.load, c.cpus, got, c.want)
			}
		})
	}
}

func TestTimeout_ReadsLoad(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       float64
	}{
		{"average", "12.50 3.00 1.00 2/400 1234\n", 12.5},
		{"processes that just began", "0.10 0.20 0.30 25/400 1234\n", 25},
		{"empty", "", 0},
		{"another form", "a b c d e", 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := parseLoad(c.text); got != c.want {
				t.Errorf("%q: %v, want %v", c.text, got, c.want)
			}
		})
	}
}

func TestTimeout_StaysWithinLimits(t *testing.T) {
	if got := Timeout(); got < baseTimeout || got > maxTimeoutFactor*baseTimeout {
		t.Errorf("%v, want between %v and %v", got, baseTimeout, maxTimeoutFactor*baseTimeout)
	}
}
