package console

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/oidc"
	"github.com/acphost/acphost/services/gatewayd/internal/signin"
	"github.com/acphost/acphost/test/idp"
)

// rig is a console in front of a service that returns the name of its caller.
type rig struct {
	t      *testing.T
	broker *signin.Broker
	gate   *auth.Gate
	all    http.Handler
	token  string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	token, secret, err := tokens.New("", "approver", time.Now(), time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	text, err := tokens.Encode(tokens.Set{token})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "tokens.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	r := &rig{t: t, broker: signin.New(nil), token: secret}
	r.gate = auth.New(auth.Options{Tokens: file, Hosts: []string{"acp.example"}, Browser: Browser(r.broker), Logger: log})
	page := New(Options{Gate: r.gate, Broker: r.broker, Logger: log})
	mux := http.NewServeMux()
	mux.Handle("/console/", page)
	mux.HandleFunc("/service", func(w http.ResponseWriter, req *http.Request) {
		caller, rejection := r.gate.Check(req)
		if rejection != nil {
			http.Error(w, rejection.Text, rejection.Status)
			return
		}
		_, _ = io.WriteString(w, caller.Role)
	})
	r.all = mux
	return r
}

// do sends a request as the console's page does; headers are pairs, "" removes a header.
func (r *rig) do(method, path, body string, headers ...string) *http.Response {
	r.t.Helper()
	req := httptest.NewRequestWithContext(r.t.Context(), method, "http://acp.example:7480"+path, strings.NewReader(body))
	req.Header.Set("Origin", "http://acp.example:7480")
	req.Header.Set("Sec-Fetch-Site", "same-origin")
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		switch {
		case headers[i] == "Host":
			req.Host = headers[i+1]
		case headers[i+1] == "":
			req.Header.Del(headers[i])
		default:
			req.Header.Set(headers[i], headers[i+1])
		}
	}
	w := httptest.NewRecorder()
	r.all.ServeHTTP(w, req)
	return w.Result()
}

// signInByToken signs a browser in by a token, and returns the headers that show it.
func (r *rig) signInByToken() (cookie *http.Cookie, headers []string) {
	r.t.Helper()
	res := r.do("POST", "/console/api/token", `{"token":"`+r.token+`"}`)
	defer res.Body.Close()
	var got message
	if err := json.NewDecoder(res.Body).Decode(&got); err != nil || got.State != "in" || got.Role != "approver" {
		r.t.Fatalf("%d, %+v (%v)", res.StatusCode, got, err)
	}
	cookie = res.Cookies()[0]
	return cookie, []string{"Cookie", cookie.Name + "=" + cookie.Value, auth.PageHeader, got.Secret}
}

func TestCookie_IsHTTPOnlyAndSameSite(t *testing.T) {
	r := newRig(t)
	cookie, headers := r.signInByToken()
	if !cookie.HttpOnly || cookie.SameSite != http.SameSiteStrictMode || cookie.Path != "/" || cookie.Secure || cookie.Name != "acphost-console-7480" || cookie.MaxAge <= 0 {
		t.Errorf("the cookie is %+v", cookie)
	}
	if res := r.do("POST", "/service", "{}", headers...); res.StatusCode != 200 {
		t.Errorf("a signed-in browser gets %d", res.StatusCode)
	}
	for _, path := range []string{"begin", "token"} { // over TLS, here that of a proxy
		res := r.do("POST", "/console/api/"+path, `{"token":"`+r.token+`"}`, "Origin", "https://acp.example:7480")
		if c := res.Cookies()[0]; !c.Secure || !c.HttpOnly || !strings.HasPrefix(c.Name, "__Host-") || c.Path != "/" || c.Domain != "" {
			t.Errorf("over TLS, the cookie of %s is %+v", path, c)
		}
	}
	if res := r.do("POST", "/console/api/out", "{}", headers...); res.StatusCode != 200 || len(res.Cookies()) != 1 || res.Cookies()[0].MaxAge >= 0 {
		t.Errorf("signing out: %d, %v", res.StatusCode, res.Cookies())
	}
	if res := r.do("POST", "/service", "{}", headers...); res.StatusCode != 401 {
		t.Errorf("a signed-out browser gets %d", res.StatusCode)
	}
}

func TestConsole_RejectsCrossOriginRequests(t *testing.T) {
	r := newRig(t)
	_, in := r.signInByToken()
	cookieAlone := in[:2]
	for name, c := range map[string]struct {
		headers []string
		want    int
	}{
		"another origin":                        {append([]string{"Origin", "http://evil.example"}, in...), 403},
		"another port of this host":             {append([]string{"Origin", "http://acp.example:3000"}, in...), 403},
		"no origin":                             {append([]string{"Origin", ""}, in...), 403},
		"the origin null":                       {append([]string{"Origin", "null"}, in...), 403},
		"another site by Sec-Fetch-Site":        {append([]string{"Sec-Fetch-Site", "cross-site"}, in...), 403},
		"the same site by Sec-Fetch-Site":       {append([]string{"Sec-Fetch-Site", "same-site"}, in...), 403},
		"an address that was made to lead here": {append([]string{"Host", "evil.example", "Origin", "http://evil.example"}, in...), 421},
	} {
		if res := r.do("POST", "/service", "{}", c.headers...); res.StatusCode != c.want {
			t.Errorf("%s: the service gives %d, want %d", name, res.StatusCode, c.want)
		}
		for _, path := range []string{"begin", "claim", "token", "who", "out"} {
			if res := r.do("POST", "/console/api/"+path, `{"token":"`+r.token+`"}`, c.headers...); res.StatusCode != c.want || len(res.Cookies()) > 0 {
				t.Errorf("%s: %s gives %d and %v, want %d", name, path, res.StatusCode, res.Cookies(), c.want)
			}
		}
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		for _, path := range []string{"token", "out"} {
			if res := r.do("POST", "/console/api/"+path, `{"token":"`+r.token+`"}`, append([]string{"Content-Type", kind}, in...)...); res.StatusCode != 415 {
				t.Errorf("%s with a body of %q: %d", path, kind, res.StatusCode)
			}
		}
	}
	// Requests of pages on other ports of this host contain the cookie; it has no effect without the page's secret.
	for _, extra := range [][]string{nil, {auth.PageHeader, "x"}} {
		if res := r.do("POST", "/service", "{}", append(extra, cookieAlone...)...); res.StatusCode != 401 && res.StatusCode != 403 {
			t.Errorf("the cookie alone, with %q: %d", extra, res.StatusCode)
		}
	}
	// Two cookies of the name: another server has set one.
	two := []string{"Cookie", in[1] + "; " + in[1], in[2], in[3]}
	if res := r.do("POST", "/service", "{}", two...); res.StatusCode != 401 {
		t.Errorf("two cookies: %d", res.StatusCode)
	}
	if res := r.do("POST", "/service", "{}", in...); res.StatusCode != 200 {
		t.Errorf("the browser's own page gets %d any more", res.StatusCode)
	}
	for _, path := range []string{"begin", "claim", "token", "who", "out"} {
		if res := r.do("GET", "/console/api/"+path, "", in...); res.StatusCode != 404 && res.StatusCode != 405 {
			t.Errorf("GET %s: %d", path, res.StatusCode)
		}
	}
}

func TestPage_ForbidsFramesAndScripts(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/console/", "/console/console.js", "/console/no-such-file", "/console/api/who"} {
		res := r.do("GET", path, "", "Origin", "", "Sec-Fetch-Site", "none")
		csp := res.Header.Get("Content-Security-Policy")
		for _, want := range []string{"default-src 'none'", "script-src 'self'", "style-src 'self'", "connect-src 'self'", "frame-ancestors 'none'", "base-uri 'none'", "form-action 'none'", "require-trusted-types-for 'script'"} {
			if !strings.Contains(csp, want) {
				t.Errorf("%s: its policy has no %q: %s", path, want, csp)
			}
		}
		if strings.Contains(csp, "unsafe") || res.Header.Get("X-Frame-Options") != "DENY" || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: the headers are %v", path, res.Header)
		}
	}
	page, err := dist.ReadFile("dist/index.html")
	if err != nil || strings.Contains(string(page), "style=") || strings.Contains(string(page), "<style") || strings.Contains(string(page), "://") {
		t.Errorf("the page has styles in it, or addresses of others: %s (%v)", page, err)
	}
	if res := r.do("GET", "/console/", "", "Host", "evil.example"); res.StatusCode != 421 {
		t.Errorf("under another name the page is given: %d", res.StatusCode)
	}
}

func TestPage_IsSmall(t *testing.T) {
	total := 0
	for name, f := range load() {
		total += len(f.smaller)
		if f.kind == "" {
			t.Errorf("%s has no type", name)
		}
	}
	t.Logf("%d bytes compressed", total)
	if total > 400_000 || total < 50_000 {
		t.Errorf("the page has %d bytes compressed, want at most 400,000, and something", total)
	}
}

func TestSignIn_RejectsInvalidTokens(t *testing.T) {
	r := newRig(t)
	for body, want := range map[string]int{
		`{"token":""}`: 401, `{"token":"x"}`: 401, `{"token":"` + r.token + `x"}`: 401, `{}`: 401,
		`[]`: 400, `{`: 400, ``: 400, `{"token":"` + strings.Repeat("x", 5000) + `"}`: 413,
	} {
		if res := r.do("POST", "/console/api/token", body); res.StatusCode != want || len(res.Cookies()) > 0 {
			t.Errorf("%.40q: %d, %v, want %d", body, res.StatusCode, res.Cookies(), want)
		}
	}
	if len(r.broker.Sessions()) != 0 {
		t.Error("a browser is signed in")
	}
}

func TestSignIn_ProviderRequiresSecretsOfBrowser(t *testing.T) {
	r := newRig(t)
	provider := idp.New(t)
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(idp.Secret), 0o600); err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	mux := http.NewServeMux()
	mux.Handle("/service", r.all)
	mux.Handle("/console/", New(Options{Gate: r.gate, Broker: r.broker, Logger: log, Provider: oidc.New(oidc.Options{
		Issuer: provider.URL, ClientID: idp.Client, SecretFile: secret, Redirect: "http://acp.example:7480/console/oidc/callback",
		RoleClaim: "groups", Roles: map[string]string{"g": "approver"}, Logger: log,
	})}))
	r.all = mux
	provider.Person(idp.Claims{"groups": []string{"g"}})
	begin := func() (cookie, page string, back url.Values) {
		t.Helper()
		res := r.do("POST", "/console/api/oidc/begin", "{}")
		defer res.Body.Close()
		var got message
		if err := json.NewDecoder(res.Body).Decode(&got); err != nil || len(res.Cookies()) != 1 {
			t.Fatal(res.Status, err)
		}
		c := res.Cookies()[0]
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || strings.Contains(got.URL, got.Secret) || strings.Contains(got.URL, c.Value) {
			t.Errorf("the cookie is %+v, the page %s", c, got.URL)
		}
		client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
		at, err := client.Get(got.URL)
		if err != nil {
			t.Fatal(err)
		}
		defer at.Body.Close()
		led, err := at.Location()
		if err != nil || led.Path != "/console/oidc/callback" || led.Host != "acp.example:7480" {
			t.Fatal(led, err)
		}
		return c.Name + "=" + c.Value, got.Secret, led.Query()
	}
	finish := func(cookie, page string, back url.Values) (*http.Response, message) {
		t.Helper()
		body, _ := json.Marshal(map[string]string{"secret": page, "code": back.Get("code"), "echo": back.Get("state")})
		res := r.do("POST", "/console/api/oidc/finish", string(body), "Cookie", cookie)
		defer res.Body.Close()
		var got message
		_ = json.NewDecoder(res.Body).Decode(&got)
		return res, got
	}
	// The browser is redirected to a page that reads the code from its address: the redirect alone signs nobody in.
	if res := r.do("GET", "/console/oidc/callback?code=x&state=y", "", "Origin", "", "Sec-Fetch-Site", "cross-site"); res.StatusCode != 200 || len(res.Cookies()) > 0 || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
		t.Errorf("the callback: %d, %v", res.StatusCode, res.Cookies())
	}
	cookie, page, back := begin()
	otherCookie, otherPage, otherBack := begin()
	for name, c := range map[string]struct {
		cookie, page string
		back         url.Values
	}{
		"no cookie":                      {"", page, back},
		"no secret":                      {cookie, "", back},
		"another browser's cookie":       {otherCookie, page, back},
		"another page's secret":          {cookie, otherPage, back},
		"the secrets of another browser": {cookie, page, otherBack},
		"another state":                  {cookie, page, url.Values{"code": back["code"], "state": {"x"}}},
		"no state":                       {cookie, page, url.Values{"code": back["code"]}},
		"no code":                        {cookie, page, url.Values{"state": back["state"]}},
	} {
		if res, _ := finish(c.cookie, c.page, c.back); res.StatusCode != 403 || len(res.Cookies()) > 0 {
			t.Errorf("%s: %d, %v", name, res.StatusCode, res.Cookies())
		}
	}
	// A code of another browser's sign-in: what it was asked with does not fit.
	if res, _ := finish(cookie, page, url.Values{"code": otherBack["code"], "state": back["state"]}); res.StatusCode != 502 {
		t.Errorf("another browser's code: %d", res.StatusCode)
	}
	if len(r.broker.Sessions()) != 0 {
		t.Error("a browser is signed in")
	}
	res, got := finish(cookie, page, back)
	if res.StatusCode != 200 || got.State != "in" || got.Role != "approver" || got.Secret == page {
		t.Fatalf("%d, %+v", res.StatusCode, got)
	}
	for _, c := range res.Cookies() {
		if c.MaxAge > 0 {
			if res := r.do("POST", "/service", "{}", "Cookie", c.Name+"="+c.Value, auth.PageHeader, got.Secret); res.StatusCode != 200 {
				t.Errorf("a signed-in browser gets %d", res.StatusCode)
			}
		}
	}
	if all := r.broker.Sessions(); len(all) != 1 || all[0].Name != "u-1" || !strings.HasPrefix(all[0].Method, "oidc ") {
		t.Errorf("signed in are %+v", all)
	}
	if res, _ := finish(cookie, page, back); res.StatusCode == 200 {
		t.Error("it can be done twice")
	}
	provider.Down(true)
	if res := r.do("POST", "/console/api/token", `{"token":"`+r.token+`"}`); res.StatusCode != 200 {
		t.Errorf("with a token, while the provider is down: %d", res.StatusCode)
	}
}
