package egress

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestUpstream_LooksUpAndConnects(t *testing.T) {
	port := echo(t, "tcp4")
	company := newRig(t, Options{})
	by, err := url.Parse(company.URL())
	if err != nil {
		t.Fatal(err)
	}
	own := newRig(t, Options{
		Upstream: func(to Target) *url.URL {
			if to.Host.Name == "plain.test" {
				return nil
			}
			return by
		},
		LookUp: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name != "plain.test" {
				t.Errorf("%s was looked up here", name)
			}
			return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
		},
	})
	for host, want := range map[string]string{
		"allowed.test": "200", "denied.test": "403", "metadata.test": "502", "127.0.0.1": "200", "169.254.169.254": "403",
	} {
		conn := own.dial(t, "CONNECT "+host+":"+port+" HTTP/1.1\r\nHost: x\r\nSECRET\r\n\r\n")
		reader := bufio.NewReader(conn)
		line, err := reader.ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "HTTP/1.1 "+want) {
			t.Errorf("%s: got %q, %v, want %s", host, line, err, want)
		}
		if want == "200" {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.CloseWrite()
			rest, err := io.ReadAll(reader)
			if err != nil || !strings.HasSuffix(string(rest), "hello") {
				t.Errorf("%s: got %q, %v", host, rest, err)
			}
		}
		_ = conn.Close()
	}
	if want := "allowed.test[127.0.0.1]"; !slices.Contains(company.decider.saw, want) || slices.Contains(own.decider.saw, want) {
		t.Errorf("decided on %q here, and on %q upstream", own.decider.saw, company.decider.saw)
	}
	if slices.Contains(company.decider.saw, "denied.test[]") {
		t.Error("a denied name reached the upstream proxy")
	}
}

func TestUpstreamFromEnvironment_ExceptsMachines(t *testing.T) {
	for _, name := range []string{"HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	if UpstreamFromEnvironment() != nil {
		t.Error("got a proxy without variables")
	}
	t.Setenv("https_proxy", "http://me:pw@proxy.test:3128")
	t.Setenv("NO_PROXY", ".inside.test,192.0.2.0/24")
	upstream := UpstreamFromEnvironment()
	for address, want := range map[string]string{
		"example.org:443": "proxy.test:3128", "a.inside.test:443": "", "192.0.2.7:22": "", "127.0.0.1:80": "", "198.51.100.1:22": "proxy.test:3128",
	} {
		host, _, _ := net.SplitHostPort(address)
		to := Target{Port: 443}
		if a, err := netip.ParseAddr(host); err == nil {
			to.Host.Address = a
		} else {
			to.Host.Name = host
		}
		got := ""
		if by := upstream(to); by != nil {
			got = by.Host
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", address, got, want)
		}
	}
	t.Setenv("https_proxy", "socks5://proxy.test:1080")
	if by := UpstreamFromEnvironment()(Target{Port: 443}); by != nil {
		t.Errorf("a SOCKS proxy: got %v", by)
	}
}
