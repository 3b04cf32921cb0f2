package intent

import (
	"net/netip"
	"testing"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/services/supervisor/internal/acp"
	"github.com/acphost/acphost/services/supervisor/internal/acp/jsonrpc"
)

func TestSame_FetchMatchesConnection(t *testing.T) {
	const private = "10.0.0.7"
	for _, tt := range []struct {
		url, kind, title, host string
		port                   uint16
		addresses              []string
		want                   bool
	}{
		{url: "https://x.example/a?b", host: "x.example", port: 443, want: true},
		{url: "https://X.example./a", host: "x.example", port: 443, want: true},
		{url: "https://x.example", host: "x.example", port: 443, addresses: []string{"1.1.1.1"}, want: true},
		{url: "http://x.example", host: "x.example", port: 80, want: true},
		{url: "http://x.example", host: "x.example", port: 443, want: true},
		{url: "https://x.example:8443/", host: "x.example", port: 8443, want: true},
		{url: "http://" + private + ":80/", host: private, port: 80, want: true},
		{url: "https://x.example", host: "x.example", port: 443, addresses: []string{"1.1.1.1", private}},
		{url: "https://x.example", host: "x.example", port: 80},
		{url: "https://x.example:8443/", host: "x.example", port: 443},
		{url: "https://x.example", host: "y.example", port: 443},
		{url: "https://x.example", host: "a.x.example", port: 443},
		{url: "https://x.example@y.example/", host: "x.example", port: 443},
		{url: "https://x.example@y.example/", host: "y.example", port: 443},
		{url: "ftp://x.example", host: "x.example", port: 80},
		{url: "https://x.example", kind: "other", host: "x.example", port: 443},
		{url: "https://x.example", kind: "read", host: "x.example", port: 443},
		{url: "https://x.example", title: "Fetch", host: "x.example", port: 443},
		{url: "https://x.example", title: "Fetch https://y.example", host: "x.example", port: 443},
		{url: "x.example", host: "x.example", port: 443},
		{url: "", host: "x.example", port: 443},
	} {
		kind, title := tt.kind, tt.title
		if kind == "" {
			kind = "fetch"
		}
		if title == "" {
			title = "Fetch " + tt.url
		}
		question := Question(inSession(""), acp.ToolCall{ID: "c", Kind: kind, Title: title, RawInput: append(append([]byte(`{"prompt":"p","url":`), jsonrpc.AppendString(nil, tt.url)...), '}')})
		host, err := hosts.Parse(tt.host)
		if err != nil {
			t.Fatal(err)
		}
		to := hosts.Endpoint{Host: host, Port: tt.port}
		for _, address := range tt.addresses {
			to.Addresses = append(to.Addresses, netip.MustParseAddr(address))
		}
		if got := Same(question, Reached(inSession(""), to)); got != tt.want {
			t.Errorf("%s (%s %q), %s:%d %q: got %t, want %t", tt.url, kind, title, tt.host, tt.port, tt.addresses, got, tt.want)
		}
	}
}
