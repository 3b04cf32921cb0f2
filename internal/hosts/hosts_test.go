package hosts

import (
	"net/netip"
	"strings"
	"testing"
)

func TestParse_NormalizesSpellings(t *testing.T) {
	for text, want := range map[string]string{
		"api.example.com":              "api.example.com",
		"API.Example.COM.":             "api.example.com",
		"bücher.example":               "xn--bcher-kva.example",
		"BÜCHER.example.":              "xn--bcher-kva.example",
		"xn--bcher-kva.example":        "xn--bcher-kva.example",
		"example。com":                  "example.com",
		"ｅxample.com":                  "example.com",
		"my_host.local":                "my_host.local",
		"192.0.2.1":                    "192.0.2.1",
		"１92.0.2.1":                    "192.0.2.1",
		"[2001:DB8:0::1]":              "2001:db8::1",
		"2001:db8::1":                  "2001:db8::1",
		"[::ffff:169.254.169.254]":     "169.254.169.254",
		"[::ffff:a9fe:a9fe]":           "169.254.169.254",
		"localhost":                    "localhost",
		"1.example":                    "1.example",
		"0x7f.example":                 "0x7f.example",
		strings.Repeat("a", 63) + ".b": strings.Repeat("a", 63) + ".b",
	} {
		if got, err := Parse(text); err != nil || got.String() != want {
			t.Errorf("%q: got %v, %v, want %s", text, got, err, want)
		}
	}
}

func TestParse_RejectsAmbiguousNames(t *testing.T) {
	for _, text := range []string{
		"", ".", "..", "a..b", ".a", "-a.b", "a-.b", "a b", "a/b", "a@b", "a%b", "a\r\nb", "a\x00b", "a#b", "a?b", "a\\b", "a,b", "*.a",
		"2130706433", "0x7f000001", "017700000001", "127.1", "127.0.1", "0177.0.0.1", "127.0.0.01", "0x7f.0.0.1", "127.0.0.1.", "256.1.1.1",
		"1.2.3.4.5", "foo.0x", "foo.1", "127.0.0.0x1", "[::1", "::1]", "[127.0.0.1]", "[fe80::1%eth0]", "fe80::1%25eth0", "[::1]x", "[]", ":", "::g",
		strings.Repeat("a", 64), strings.Repeat("a.", 127) + "a", "xn--a\u00fc.b", "\xff.example", "a\u200db.example", "a\u2024b\u0338.c",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q: got %v, want it refused", text, got)
		}
	}
}

func TestSplit_HostAndPort(t *testing.T) {
	for text, want := range map[string]string{
		"Example.com:443": "example.com:443", "[::1]:80": "[::1]:80", "192.0.2.1:65535": "192.0.2.1:65535", "[::ffff:192.0.2.1]:1": "192.0.2.1:1",
	} {
		host, port, err := Split(text)
		if err != nil || host.WithPort(port) != want {
			t.Errorf("%q: got %v, %d, %v, want %s", text, host, port, err, want)
		}
	}
	for _, text := range []string{"a", "a:", "a:0", "a:65536", "a:+1", "a:-1", "a:http", "a:080000", "::1:80", ":80", "a:1:2", "user@a:1", "a:1 "} {
		if host, port, err := Split(text); err == nil {
			t.Errorf("%q: got %v, %d, want it refused", text, host, port)
		}
	}
}

func TestPattern_Matches(t *testing.T) {
	for _, c := range []struct{ pattern, names, others string }{
		{"api.Example.com.", "api.example.com:1 API.example.com:443", "example.com:443 x.api.example.com:443 api.example.com.evil.org:443"},
		{"*.npmjs.org", "registry.npmjs.org:443 a.b.npmjs.org:80", "npmjs.org:443 evilnpmjs.org:443 npmjs.org.evil.com:443"},
		{"*.bücher.example:443", "a.xn--bcher-kva.example:443", "a.xn--bcher-kva.example:80"},
		{"example.com:443", "example.com:443", "example.com:80"},
		{"10.0.0.0/8", "10.1.2.3:5 [::ffff:10.1.2.3]:5", "11.0.0.1:5 ten.example:5"},
		{"10.0.0.0/8:5432", "10.1.2.3:5432", "10.1.2.3:22"},
		{"[2001:db8::1]:443", "[2001:db8::1]:443", "[2001:db8::1]:80 [2001:db8::2]:443"},
		{"2001:db8::1", "[2001:db8::1]:80", "[2001:db8::2]:80"},
		{"[2001:db8::/32]:22", "[2001:db8:1::1]:22", "[2001:db9::1]:22"},
		{"2001:db8::/32", "[2001:db8:1::1]:22", "[2001:db9::1]:22"},
		{"*", "a.b:1 192.0.2.1:1", ""},
		{"*:443", "a.b:443 [::1]:443", "a.b:80"},
	} {
		p, err := ParsePattern(c.pattern)
		if err != nil {
			t.Fatalf("%s: %v", c.pattern, err)
		}
		for want, list := range map[bool]string{true: c.names, false: c.others} {
			for text := range strings.FieldsSeq(list) {
				host, port, err := Split(text)
				if err != nil {
					t.Fatal(err)
				}
				if got := p.Names(host, port); got != want {
					t.Errorf("%s names %s: got %v", c.pattern, text, got)
				}
			}
		}
	}
	for _, text := range []string{"", "*.", "a.*", "*a.b", "**", "*.*.a", "*.10.0.0.1", "10.0.0.1/8", "10.0.0.0/33", "a:0", "a:x", "a:", "[::1]:", "[::1", "[a]", "http://a", "a/b", "::ffff:10.0.0.0/104", "127.1", "[::1]443"} {
		if p, err := ParsePattern(text); err == nil {
			t.Errorf("%q: got %+v, want it refused", text, p)
		}
	}
}

func TestPattern_Includes(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"*", "a.b:1", true},
		{"*:1", "a.b", false},
		{"a.b", "a.b:1", true},
		{"a.b:1", "a.b", false},
		{"*.b", "*.a.b", true},
		{"*.b", "b", false},
		{"*.b", "a.b", true},
		{"*.a.b", "*.b", false},
		{"10.0.0.0/8", "10.1.0.0/16", true},
		{"10.1.0.0/16", "10.0.0.0/8", false},
		{"10.0.0.0/8", "10.0.0.1", true},
		{"10.0.0.0/8", "*", false},
		{"a", "*", false},
		{"a", "10.0.0.1", false},
	} {
		a, err1 := ParsePattern(c.a)
		b, err2 := ParsePattern(c.b)
		if got := a.Includes(b); err1 != nil || err2 != nil || got != c.want {
			t.Errorf("%s includes %s: got %v, %v, %v", c.a, c.b, got, err1, err2)
		}
	}
}

func TestPattern_CoversAddressesByAddress(t *testing.T) {
	loopback := netip.MustParseAddr("::ffff:127.0.0.1")
	for text, want := range map[string]bool{
		"127.0.0.0/8": true, "127.0.0.1:80": true, "127.0.0.1:81": false, "localhost": true, "*": false, "*.localhost": false, "example.com": false,
	} {
		p, err := ParsePattern(text)
		if got := p.Covers(loopback, 80); err != nil || got != want {
			t.Errorf("%s: got %v, %v", text, got, err)
		}
	}
}

func TestIsPublic_RejectsReservedAddresses(t *testing.T) {
	for text := range strings.FieldsSeq(`1.1.1.1 8.8.8.8 160.79.104.10 2606:4700::1111 2a00:1450::1 64:ff9b::808:808 2002:808:808::1 172.32.0.1 100.128.0.1`) {
		if a := netip.MustParseAddr(text); !IsPublic(a) || IsMetadata(a) {
			t.Errorf("%s: it is public, and no service for metadata", text)
		}
	}
	for text := range strings.FieldsSeq(`0.0.0.0 10.0.0.1 100.64.0.1 127.0.0.1 127.255.0.1 169.254.1.1 172.16.0.1 172.31.255.255 192.168.0.1 224.0.0.1 255.255.255.255
		198.18.0.1 :: ::1 ::ffff:10.0.0.1 fe80::1 fe80::1%eth0 fc00::1 fd00::1 fec0::1 ff02::1 ::127.0.0.1 2001::1 2001:db8::1 3fff::1 64:ff9b::7f00:1
		64:ff9b:1::7f00:1 2002:7f00:1::1 100::1 5f00::1`) {
		if IsPublic(netip.MustParseAddr(text)) {
			t.Errorf("%s: it is not public", text)
		}
	}
	for text := range strings.FieldsSeq(`169.254.169.254 ::ffff:169.254.169.254 fd00:ec2::254 fd00:ec2::254%lo 64:ff9b::a9fe:a9fe 2002:a9fe:a9fe::1 168.63.129.16 100.100.100.200`) {
		if a := netip.MustParseAddr(text); !IsMetadata(a) || IsPublic(a) {
			t.Errorf("%s: it is a service for metadata", text)
		}
	}
	if IsPublic(netip.Addr{}) || IsMetadata(netip.Addr{}) {
		t.Error("no address is public")
	}
}

// FuzzParse checks that the text of a parsed host parses to the same host.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"api.example.com:443", "[::ffff:169.254.169.254]:80", "2130706433:80", "0x7f.1:80", "0177.0.0.1:80", "bücher.example.:443", "a\r\nHost: b:80",
		"user@host:80", "[fe80::1%25eth0]:1", "*.npmjs.org:443", "10.0.0.0/8:5432", "[fd00::/8]:22", "１２７.0.0.1:80", "xn--.a:1", "a。b:1", "*:1", "::1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if host, port, err := Split(text); err == nil {
			again, samePort, err := Split(host.WithPort(port))
			if err != nil || again != host || samePort != port || port == 0 {
				t.Errorf("%q: got %v, %d, and again %v, %d, %v", text, host, port, again, samePort, err)
			}
			if (host.Name == "") != host.Address.IsValid() || host.Address.Is4In6() || host.Address.Zone() != "" || strings.ContainsAny(host.Name, " \r\n\x00%/:@[]*") {
				t.Errorf("%q: got %+v", text, host)
			}
			pattern, err := ParsePattern(host.WithPort(port))
			if err != nil || !pattern.Names(host, port) || !pattern.Includes(pattern) {
				t.Errorf("%q: its own pattern does not name it: %+v, %v", text, pattern, err)
			}
		}
		if p, err := ParsePattern(text); err == nil && !p.Includes(p) {
			t.Errorf("%q: the pattern does not include itself", text)
		}
	})
}
