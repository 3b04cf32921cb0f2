package ring

import (
	"bytes"
	"math"
	"math/rand/v2"
	"testing"
)

func TestRing_KeepsNewestBytes(t *testing.T) {
	for _, tt := range []struct {
		name   string
		limit  int
		writes []string
		want   string
	}{
		{"nothing written", 4, nil, ""},
		{"less than the limit", 4, []string{"ab"}, "ab"},
		{"exactly the limit", 4, []string{"ab", "cd"}, "abcd"},
		{"a write that wraps", 4, []string{"abc", "def"}, "cdef"},
		{"a write larger than the ring", 4, []string{"a", "bcdefgh"}, "efgh"},
		{"no room at all", 0, []string{"abc"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := New(tt.limit, NewBudget(math.MaxInt64))
			total := 0
			for _, w := range tt.writes {
				r.Write([]byte(w))
				total += len(w)
			}
			if got := string(r.AppendTo(nil)); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if r.Total() != uint64(total) || r.Dropped() != uint64(total-len(tt.want)) {
				t.Errorf("got total %d and dropped %d of %d written", r.Total(), r.Dropped(), total)
			}
		})
	}
}

func TestRing_SharedBudget(t *testing.T) {
	b := NewBudget(64 << 10)
	a, z := New(1<<20, b), New(1<<20, b)
	block := bytes.Repeat([]byte("x"), 40<<10)
	a.Write(block)
	z.Write(block)
	if b.Used() > 64<<10 {
		t.Fatalf("got %d bytes taken, the budget is %d", b.Used(), 64<<10)
	}
	if a.Len() != len(block) {
		t.Errorf("the first ring holds %d bytes, want %d", a.Len(), len(block))
	}
	if z.Len() < minSize || z.Len() >= len(block) {
		t.Errorf("the second ring holds %d bytes, want at least %d and less than %d", z.Len(), minSize, len(block))
	}
	a.Free()
	z.Write(block)
	if z.Len() < len(block) {
		t.Errorf("after the first was freed the second holds %d bytes, want at least %d", z.Len(), len(block))
	}
	z.Free()
	if b.Used() != 0 {
		t.Errorf("got %d bytes still taken, want 0", b.Used())
	}
}

func TestRing_AgreesWithSlice(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		limit := rnd.IntN(3 * minSize)
		r := New(limit, NewBudget(int64(rnd.IntN(2*minSize))))
		var all []byte
		for range 40 {
			p := make([]byte, rnd.IntN(minSize))
			for i := range p {
				p[i] = byte(rnd.Uint32())
			}
			all = append(all, p...)
			r.Write(p)
			got := r.AppendTo(nil)
			if !bytes.Equal(got, all[len(all)-r.Len():]) {
				t.Fatalf("limit %d: the %d bytes held are not the newest of %d", limit, r.Len(), len(all))
			}
			if r.Len() > limit || (limit >= minSize && len(all) >= minSize && r.Len() < minSize) {
				t.Fatalf("limit %d: %d bytes held of %d", limit, r.Len(), len(all))
			}
			if r.Len() == 0 {
				continue
			}
			off := r.Dropped() + uint64(rnd.IntN(r.Len()))
			piece := make([]byte, rnd.IntN(minSize))
			k := r.CopyAt(piece, off)
			if want := min(len(piece), int(r.Total()-off)); k != want || !bytes.Equal(piece[:k], all[off:int(off)+k]) {
				t.Fatalf("copy at %d: got %d bytes, want %d", off, k, want)
			}
		}
	}
}
