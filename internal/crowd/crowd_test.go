package crowd

import (
	"fmt"
	"net"
	"strings"
	"testing"
)

func TestWhoGivesWayInACrowd(t *testing.T) {
	for name, c := range map[string]struct {
		manner Manner
		come   string // origins, one letter each; of 4 altogether and 3 of each
		want   string // those that are refused, in capitals, and those that were dropped, by number
	}{
		"a firm one refuses":                        {Firm, "aabbc", "aabbC"},
		"a firm one, of an origin that has enough":  {Firm, "aaaab", "aaaAb"},
		"a sharing one takes from who has most":     {Sharing, "aaabc", "aaabc 0"},
		"a sharing one, where all have the same":    {Sharing, "aabbc", "aabbc 0"},
		"a sharing one keeps what others share":     {Sharing, "abcde", "abcdE"},
		"a sharing one, of who has enough":          {Sharing, "aaaa", "aaaA"},
		"a sharing one gives nobody more":           {Sharing, "aabba", "aabbA"},
		"a pressing one drops the oldest of itself": {Pressing, "aaaaa", "aaaaa 0 1"},
		"a pressing one takes from who has most":    {Pressing, "baaac", "baaac 1"},
		"a pressing one, where all have the same":   {Pressing, "abcde", "abcde 0"},
		"a pressing one, from many who have one":    {Pressing, "abcdefg", "abcdefg 0 1 2"},
		"a newcomer is not dropped by a flood":      {Pressing, "baaaaaaa", "baaaaaaa 1 2 3 4"},
	} {
		t.Run(name, func(t *testing.T) {
			crowd := New(4, 3, c.manner)
			var said, dropped []string
			var leave []func()
			for i, origin := range c.come {
				left, ok := crowd.Admit(string(origin), func() { dropped = append(dropped, fmt.Sprint(i)) })
				if ok {
					leave = append(leave, left)
					said = append(said, string(origin))
				} else {
					said = append(said, strings.ToUpper(string(origin)))
				}
			}
			if got := strings.Join(append([]string{strings.Join(said, "")}, dropped...), " "); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			for _, l := range append(leave, leave...) {
				l()
			}
			if crowd.all != 0 || len(crowd.of) != 0 {
				t.Errorf("%d are there when all are gone: %v", crowd.all, crowd.of)
			}
		})
	}
}

func TestAnAddressIsOneOriginWhateverItsPort(t *testing.T) {
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

// from is a connection that says where it comes from.
type from struct {
	net.Conn
	at string
}

func (f from) RemoteAddr() net.Addr { return hello(f.at) }

type hello string

func (hello) Network() string  { return "test" }
func (h hello) String() string { return string(h) }
