package server_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/acphost/acphost/services/gatewayd/internal/relay"
)

func TestCORS_AllowsNamedOrigins(t *testing.T) {
	r := newRig(t, relay.Limits{})
	const good = "https://good.example"
	// The browser sends a preflight request first, without credentials.
	header := r.want(http.StatusNoContent, "", "OPTIONS", "", "Authorization", "", "Origin", good, "Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "authorization")
	if got := header.Get("Access-Control-Allow-Origin"); got != good {
		t.Errorf("the preflight allows %q", got)
	}
	allowed := strings.ToLower(header.Get("Access-Control-Allow-Headers"))
	if !strings.Contains(allowed, "authorization") || strings.Contains(allowed, "*") || strings.Contains(allowed, "cookie") || strings.Contains(allowed, "acphost-") {
		t.Errorf("pages may send %q", allowed)
	}
	header = r.want(http.StatusBadRequest, "", "POST", "[]", "Origin", good)
	if got := header.Get("Access-Control-Allow-Origin"); got != good || header.Get("Access-Control-Allow-Credentials") != "" || header.Get("Vary") != "Origin" {
		t.Errorf("a call: %v", header)
	}
	// Without a preflight's header it is an ordinary request, without a caller.
	r.want(http.StatusUnauthorized, "", "OPTIONS", "", "Authorization", "", "Origin", good)
	for _, headers := range [][]string{
		{"Origin", "https://evil.example"}, {"Origin", "null"}, {"Origin", good + ".evil.example"}, {"Origin", "http://good.example"}, {"Origin", "https://GOOD.example"},
		{"Origin", good + "/"}, {"Origin", good, "Host", "evil.example"},
	} {
		res := r.doBy(http.DefaultTransport, "OPTIONS", "", append([]string{"Authorization", "", "Access-Control-Request-Method", "POST"}, headers...)...)
		if res.StatusCode < 400 || res.Header.Get("Access-Control-Allow-Origin") != "" {
			t.Errorf("%q: %d, %v", headers, res.StatusCode, res.Header)
		}
	}
}
