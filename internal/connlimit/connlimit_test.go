package connlimit

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestLimiter_EvictsByPolicy(t *testing.T) {
	for name, c := range map[string]struct {
		policy Policy
		come   string // origins, one letter each; the limits are 4 in total and 3 of each
		want   string // rejected ones in capitals, then the numbers of those that were evicted
	}{
		"reject":                                     {RejectNew, "aabbc", "aabbC"},
		"reject, origin at its limit":                {RejectNew, "aaaab", "aaaAb"},
		"evict largest":                              {EvictLargest, "aaabc", "aaabc 0"},
		"evict largest, equal origins":               {EvictLargest, "aabbc", "aabbc 0"},
		"evict largest, one entry each":              {EvictLargest, "abcde", "abcdE"},
		"evict largest, origin at its limit":         {EvictLargest, "aaaa", "aaaA"},
		"evict largest, new origin would be largest": {EvictLargest, "aabba", "aabbA"},
		"evict oldest, origin at its limit":          {EvictOldest, "aaaaa", "aaaaa 0 1"},
		"evict oldest, total at its limit":           {EvictOldest, "baaac", "baaac 1"},
		"evict oldest, one entry each":               {EvictOldest, "abcde", "abcde 0"},
		"evict oldest, several times":                {EvictOldest, "abcdefg", "abcdefg 0 1 2"},
		"evict oldest, flood of one origin":          {EvictOldest, "baaaaaaa", "baaaaaaa 1 2 3 4"},
	} {
		t.Run(name, func(t *testing.T) {
			limiter := New(4, 3, c.policy)
			var logged, dropped []string
			var leave []func()
			for i, origin := range c.come {
				left, ok := limiter.Admit(string(origin), func() { dropped = append(dropped, fmt.Sprint(i)) })
				if ok {
					leave = append(leave, left)
					logged = append(logged, string(origin))
				} else {
					logged = append(logged, strings.ToUpper(string(origin)))
				}
			}
			if got := strings.Join(append([]string{strings.Join(logged, "")}, dropped...), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, l := range append(leave, leave...) {
				l()
			}
			if limiter.total != 0 || len(limiter.byOrigin) != 0 {
				t.Errorf("%d are there when all are gone: %v", limiter.total, limiter.byOrigin)
			}
		})
	}
}

func TestAddressOf_IgnoresPort(t *testing.T) {
	for at, want := range map[string]string{
		"192.0.2.1:80": "192.0.2.1", "192.0.2.1:81": "192.0.2.1", "[::ffff:192.0.2.1]:80": "192.0.2.1", "192.0.2.2:80": "192.0.2.2",
		"[2001:db8:1:2::1]:80": "2001:db8:1:2::/64", "[2001:db8:1:2:ffff::9]:81": "2001:db8:1:2::/64", "[2001:db8:1:3::1]:80": "2001:db8:1:3::/64",
		"[fe80::1%eth0]:80": "fe80::/64", "[::1]:80": "::/64", "pipe": "",
	} {
		if got := AddressOf(from{at: at}); got != want {
			t.Errorf("the origin of %s is %q, want %q", at, got, want)
		}
	}
}

// from is a connection with a given remote address.
type from struct {
	net.Conn
	at string
}

func (f from) RemoteAddr() net.Addr { return hello(f.at) }

type hello string

func (hello) Network() string  { return "test" }
func (h hello) String() string { return string(h) }
