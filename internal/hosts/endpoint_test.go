package hosts

import "testing"

func TestEndpoint_ShowsPrivateAddresses(t *testing.T) {
	for _, c := range []struct {
		host      string
		addresses []string
		want      string
	}{
		{"API.example.com.", nil, "api.example.com:443"},
		{"api.example.com", []string{"1.1.1.1", "2606:4700::1111"}, "api.example.com:443"},
		{"db.example", []string{"10.0.0.7", "1.1.1.1", "10.0.0.7", "10.0.0.2"}, "db.example:443 (10.0.0.2, 10.0.0.7)"},
		{"db.example", []string{"::ffff:127.0.0.1"}, "db.example:443 (127.0.0.1)"},
		{"localhost", []string{"127.0.0.1", "::1"}, "localhost:443"},
		{"localhost", []string{"10.0.0.1"}, "localhost:443 (10.0.0.1)"},
		{"10.0.0.7", nil, "10.0.0.7:443"},
		{"::1", nil, "[::1]:443"},
	} {
		e, ok := NewEndpoint(c.host, 443, c.addresses)
		if !ok || e.String() != c.want {
			t.Errorf("%s %v: got %q, %t, want %q", c.host, c.addresses, e, ok, c.want)
		}
	}
	for _, host := range []string{"", "127.1", "a b"} {
		if e, ok := NewEndpoint(host, 443, nil); ok {
			t.Errorf("%q is %v", host, e)
		}
	}
	for _, port := range []uint32{0, 65536} {
		if e, ok := NewEndpoint("a.example", port, nil); ok {
			t.Errorf("%d is %v", port, e)
		}
	}
	if e, ok := NewEndpoint("a.example", 443, []string{"fe80::1%eth0"}); ok {
		t.Errorf("an address with a zone is %v", e)
	}
}

func TestEndpoint_PatternsCoverAllAddresses(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		host     string
		at       []string
		want     bool
	}{
		{[]string{"api.example:443"}, "api.example", []string{"1.1.1.1"}, true},
		{[]string{"api.example:80"}, "api.example", []string{"1.1.1.1"}, false},
		{[]string{"api.example"}, "api.example", []string{"1.1.1.1", "10.0.0.1"}, false},
		{[]string{"api.example", "10.0.0.0/8"}, "api.example", []string{"1.1.1.1", "10.0.0.1"}, true},
		{[]string{"localhost"}, "localhost", []string{"127.0.0.1", "::1"}, true},
		{[]string{"localhost"}, "localhost", []string{"192.168.0.1"}, false},
		{[]string{"10.0.0.0/8"}, "api.example", []string{"10.0.0.1"}, false},
		{nil, "api.example", nil, false},
	} {
		var patterns []Pattern
		for _, text := range c.patterns {
			p, err := ParsePattern(text)
			if err != nil {
				t.Fatal(err)
			}
			patterns = append(patterns, p)
		}
		if e, ok := NewEndpoint(c.host, 443, c.at); !ok || e.Named(patterns) != c.want {
			t.Errorf("%v for %v: want %t", c.patterns, e, c.want)
		}
	}
	if e, _ := NewEndpoint("x.example", 80, []string{"1.1.1.1", "169.254.169.254"}); e.Metadata().String() != "169.254.169.254" {
		t.Errorf("got %v", e.Metadata())
	}
}
