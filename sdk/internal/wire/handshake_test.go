package wire

import (
	"strings"
	"testing"
)

func FuzzCheckHandshake_ReadsWholeLine(f *testing.F) {
	for _, seed := range []string{"", "1|1|unix|/x|grpc", "1|1|tcp|127.0.0.1:1|grpc|QUJD", "1|1|unix|/x|grpc||", "||||||"} {
		f.Add(seed, true)
		f.Add(seed, false)
	}
	f.Fuzz(func(t *testing.T, line string, mutualTLS bool) {
		got, err := CheckHandshake(line, mutualTLS)
		if err != nil {
			if got != "" {
				t.Errorf("refused with %v, and taken as %q", err, got)
			}
			return
		}
		// go-plugin splits by "|" and parses a sixth part as a certificate.
		want := 5
		if mutualTLS {
			want = 6
		}
		if n := len(strings.Split(got, "|")); n != want {
			t.Errorf("%q became %q with %d parts, want %d", line, got, n, want)
		}
	})
}
