package jsonrpc

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestReader_GathersLinesOnlyUnderLoad(t *testing.T) {
	type reads struct {
		n, size int
		apart   time.Duration
	}
	few := reads{1 + floodReads, 300, floodSoon / 2} // the first one came after nothing
	for _, tt := range []struct {
		name  string
		reads []reads
		want  bool
	}{
		{"small reads, one soon after the other", []reads{few}, true},
		{"not enough of them", []reads{{floodReads, 300, floodSoon / 2}}, false},
		{"slower ones", []reads{{10 * floodReads, 300, floodSoon}}, false},
		{"a late one", []reads{{floodReads, 300, floodSoon / 2}, {1, 300, floodSoon}, {floodReads - 1, 300, 0}}, false},
		{"large ones", []reads{{10 * floodReads, floodLarge, 0}}, false},
		{"a flood that brings much by itself now", []reads{few, {1, floodLarge, 0}}, false},
		{"a flood that continues", []reads{few, {100, floodSmall, floodWait}}, true},
		{"a flood that has ended", []reads{few, {1, 300, time.Second}}, false},
		{"the same again, which is doubted", []reads{few, {1, 300, 0}, few}, false},
		{"the same again, for longer", []reads{few, {1, 300, 0}, {2 * floodReads, 300, 0}}, true},
		{"and once more, after much had gathered", []reads{few, {1, 300, 0}, {2 * floodReads, 300, 0}, {1, floodSmall, 0}, {1, 300, 0}, {2 * floodReads, 300, 0}}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var f flood
				for _, r := range tt.reads {
					for range r.n {
						f.wait()
						time.Sleep(r.apart)
						f.read(r.size)
					}
				}
				if f.wait(); f.waited != tt.want {
					t.Errorf("it waits: %v, want %v", f.waited, tt.want)
				}
			})
		})
	}
}
