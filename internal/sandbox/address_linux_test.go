//go:build amd64 || arm64

package sandbox

import (
	"math/rand/v2"
	"net/netip"
	"testing"
)

func TestHostText_FormatsAsNetip(t *testing.T) {
	t.Parallel()
	source := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		var a [16]byte
		for i := range a {
			if source.IntN(3) == 0 { // many zeros, in runs of all lengths
				a[i] = byte(source.Uint32())
			}
			if i%2 == 1 && source.IntN(3) == 0 {
				a[i-1], a[i] = 0, 0
			}
		}
		if got, want := hostText(a, false), netip.AddrFrom16(a).Unmap().String(); got != want {
			t.Fatalf("%v is %q, want %q", a, got, want)
		}
		if got, want := hostText(a, true), netip.AddrFrom4([4]byte(a[12:])).String(); got != want {
			t.Fatalf("%v is %q, want %q", a, got, want)
		}
	}
	for text, want := range map[string]string{"::": "::", "::1": "::1", "1::": "1::", "::ffff:1.2.3.4": "1.2.3.4", "1:0:0:2:0:0:0:3": "1:0:0:2::3"} {
		if got := hostText(netip.MustParseAddr(text).As16(), false); got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
}
