package oidc

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/test/idp"
)

// rig is a Provider before a provider that a test plays. later moves its time.
type rig struct {
	*Provider
	idp   *idp.Provider
	later atomic.Int64
	log   bytes.Buffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(idp.Secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &rig{idp: idp.New(t)}
	r.Provider = New(Options{
		Issuer: r.idp.URL, ClientID: idp.Client, SecretFile: secret, Redirect: "http://acp.example/console/oidc/callback", Scopes: []string{"email"},
		Audience: "acp", RoleClaim: "groups", Roles: map[string]string{"see": "viewer", "say": "approver", "do": "operator"},
		Logger: slog.New(slog.NewTextHandler(&r.log, nil)), Now: func() time.Time { return time.Now().Add(time.Duration(r.later.Load())) },
	})
	return r
}

func (r *rig) pass(d time.Duration) { r.later.Add(int64(d)) }

func TestBearer_AcceptsTokenOfProvider(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, alg := range []string{"RS256", "ES256"} {
		caller, rejection := r.Bearer(t.Context(), r.idp.Sign(alg, r.idp.Claims("acp", idp.Claims{"groups": []string{"see", "say", "other"}, "email": "a@example.org", "email_verified": true})))
		if rejection != nil || caller.Role != "approver" || caller.Name != "a@example.org" || !strings.HasPrefix(caller.ID, "oidc ") || !caller.Valid() {
			t.Errorf("%s: %+v, %v", alg, caller, rejection)
		}
		r.pass(2 * time.Hour)
		if caller.Valid() {
			t.Errorf("%s: it is valid after its expiry", alg)
		}
		r.pass(-2 * time.Hour)
	}
	// An unverified name is not used.
	caller, rejection := r.Bearer(t.Context(), r.idp.Sign("RS256", r.idp.Claims("acp", idp.Claims{"groups": "see", "email": "root@example.org", "name": "root", "preferred_username": "root"})))
	if rejection != nil || caller.Name != "u-1" || caller.Role != "viewer" {
		t.Errorf("%+v, %v", caller, rejection)
	}
}

func TestBearer_RejectsInvalidTokens(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	other := idp.New(t)
	good := idp.Claims{"groups": []string{"do"}}
	with := func(changes ...any) idp.Claims {
		c := r.idp.Claims("acp", good)
		for i := 0; i < len(changes); i += 2 {
			c[changes[i].(string)] = changes[i+1]
		}
		return c
	}
	now := time.Now()
	valid := r.idp.Sign("RS256", with())
	for name, c := range map[string]struct {
		token  string
		status int
		text   string
	}{
		"alg none":                  {r.idp.Sign("none", with()), 401, "does not count"},
		"HS256 with the public key": {r.idp.Sign("HS256", with()), 401, "does not count"},
		"another provider's key":    {other.Sign("RS256", with()), 401, "does not count"},
		"another issuer":            {r.idp.Sign("RS256", with("iss", other.URL)), 401, "does not count"},
		"another audience":          {r.idp.Sign("RS256", with("aud", "other")), 401, "does not count"},
		"the sign-in's audience":    {r.idp.Sign("RS256", with("aud", idp.Client)), 401, "does not count"},
		"expired":                   {r.idp.Sign("RS256", with("exp", now.Add(-time.Second).Unix())), 401, "it has expired"},
		"without an end":            {r.idp.Sign("RS256", r.idp.Claims("acp", idp.Claims{"exp": nil})), 401, "it has expired"},
		"not yet":                   {r.idp.Sign("RS256", with("nbf", now.Add(time.Hour).Unix())), 401, "does not count"},
		"without a name":            {r.idp.Sign("RS256", with("sub", "")), 403, "none of the groups"},
		"no groups":                 {r.idp.Sign("RS256", with("groups", nil)), 403, "none of the groups"},
		"other groups":              {r.idp.Sign("RS256", with("groups", []string{"DO", "do ", "operator", ""})), 403, "none of the groups"},
		"groups that are no texts":  {r.idp.Sign("RS256", with("groups", map[string]any{"do": true})), 403, "none of the groups"},
		"a claim in other case":     {r.idp.Sign("RS256", r.idp.Claims("acp", idp.Claims{"groups": "do", "aud": nil, "AUD": "acp"})), 401, "does not count"},
		"an end in other case":      {r.idp.Sign("RS256", with("exp", nil, "Exp", now.Add(time.Hour).Unix())), 401, "does not count"},
		"a claim of other letters":  {r.idp.Sign("RS256", with("i\u017fs", r.idp.URL)), 401, "does not count"},
		"another client's":          {r.idp.Sign("RS256", with("azp", "other")), 401, "does not count"},
		"a client_id of another":    {r.idp.SignTyped("RS256", "at+jwt", with("client_id", "other")), 401, "does not count"},
		"azp good, client_id other": {r.idp.Sign("RS256", with("azp", idp.Client, "client_id", "other")), 401, "does not count"},
		"client_id good, azp other": {r.idp.Sign("RS256", with("azp", "other", "client_id", idp.Client)), 401, "does not count"},
		"a client_id in other case": {r.idp.Sign("RS256", with("Client_ID", "other")), 401, "does not count"},
		"a client_id of no text":    {r.idp.Sign("RS256", with("client_id", 7)), 401, "does not count"},
		"several audiences":         {r.idp.Sign("RS256", with("aud", []string{"acp", "other"})), 401, "does not count"},
		"a type of the claims":      {r.idp.Sign("RS256", with("typ", "logout+jwt")), 401, "does not count"},
		"a refresh token":           {r.idp.Sign("RS256", with("typ", "Refresh")), 401, "does not count"},
		"a type of the header":      {r.idp.SignTyped("RS256", "logout+jwt", with()), 401, "does not count"},
		"an event":                  {r.idp.Sign("RS256", with("events", map[string]any{"http://schemas.openid.net/event/backchannel-logout": map[string]any{}})), 401, "does not count"},
		"an end that is a text":     {r.idp.Sign("RS256", with("exp", strconv.FormatInt(now.Add(time.Hour).Unix(), 10))), 401, "does not count"},
		"a beginning of null":       {r.idp.Sign("RS256", with("nbf", json.RawMessage("null"))), 401, "does not count"},
		"issued tomorrow":           {r.idp.Sign("RS256", with("iat", now.Add(24*time.Hour).Unix())), 401, "does not count"},
		"bound to a key":            {r.idp.Sign("RS256", with("cnf", map[string]string{"jkt": "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I"})), 401, "does not count"},
		"changed":                   {strings.Replace(valid, ".", ".A", 1), 401, "does not count"},
		"without a signature":       {valid[:strings.LastIndexByte(valid, '.')+1], 401, "does not count"},
		"nonsense":                  {"ey.ey.ey", 401, "does not count"},
	} {
		caller, rejection := r.Bearer(t.Context(), c.token)
		if rejection == nil || rejection.Status != c.status || !strings.Contains(rejection.Text, c.text) || caller.Role != "" {
			t.Errorf("%s: %+v, %v", name, caller, rejection)
		}
	}
	if _, rejection := r.Bearer(t.Context(), valid); rejection != nil {
		t.Errorf("the good one: %v", rejection)
	}
	for name, c := range map[string]idp.Claims{
		"its own client's": with("azp", idp.Client), "the audience's": with("azp", "acp"), "an access token": with("typ", "Bearer"),
		"an access token of its own client": with("client_id", idp.Client),
		"several audiences and a client_id": with("aud", []string{"acp", "other"}, "client_id", idp.Client),
	} {
		if _, rejection := r.Bearer(t.Context(), r.idp.SignTyped("RS256", "at+jwt", c)); rejection != nil {
			t.Errorf("%s: %v", name, rejection)
		}
	}
	r.Parties = []string{"cli"}
	for _, claim := range []string{"azp", "client_id"} {
		if _, rejection := r.Bearer(t.Context(), r.idp.Sign("RS256", with(claim, "cli"))); rejection != nil {
			t.Errorf("a party's %s: %v", claim, rejection)
		}
	}
	if strings.Contains(r.log.String(), valid[:40]) {
		t.Error("tokens are in the log")
	}
}

func TestKeys_RotationIsFetchedAndRateLimited(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := func() string { return r.idp.Sign("ES256", r.idp.Claims("acp", idp.Claims{"groups": "do"})) }
	old := token()
	if _, rejection := r.Bearer(t.Context(), old); rejection != nil {
		t.Fatal(rejection)
	}
	r.idp.Rotate()
	r.pass(minInterval)
	if _, rejection := r.Bearer(t.Context(), token()); rejection != nil {
		t.Errorf("a token of the new key: %v", rejection)
	}
	if _, rejection := r.Bearer(t.Context(), old); rejection == nil {
		t.Error("a token of the old key counts")
	}
	for range 100 {
		_, _ = r.Bearer(t.Context(), old)
	}
	if n := r.idp.Fetched(); n != 2 {
		t.Errorf("the keys were read %d times, want 2", n)
	}
	// Keys that were taken away count for an hour at most, though no other key is seen.
	last := token()
	r.idp.Rotate()
	r.pass(refresh)
	if _, rejection := r.Bearer(t.Context(), last); rejection == nil {
		t.Error("a token of a key that is gone counts after an hour")
	}
}

func TestBearer_ProviderIsDown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	token := r.idp.Sign("RS256", r.idp.Claims("acp", idp.Claims{"groups": "do"}))
	r.idp.Down(true)
	for range 2 {
		if _, rejection := r.Bearer(t.Context(), token); rejection == nil || rejection.Status != http.StatusServiceUnavailable || !strings.Contains(rejection.Text, "acphost tokens create") {
			t.Errorf("got %v", rejection)
		}
		if _, rejection := r.SignInURL("s", "n", "v"); rejection == nil || rejection.Status != http.StatusServiceUnavailable {
			t.Errorf("got %v", rejection)
		}
	}
	r.idp.Down(false)
	r.pass(minInterval)
	if _, rejection := r.Bearer(t.Context(), token); rejection != nil {
		t.Errorf("when it is there again: %v", rejection)
	}
	r.idp.Down(true)
	r.pass(refresh / 2)
	if _, rejection := r.Bearer(t.Context(), token); rejection != nil {
		t.Errorf("when it is down later: %v", rejection)
	}
}

// visit opens the provider's page as a browser does, and returns the parameters of its redirect.
func visit(t *testing.T, address string) url.Values {
	t.Helper()
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	back, err := res.Location()
	if err != nil {
		t.Fatal(err)
	}
	return back.Query()
}

func TestSignIn_AtProvider(t *testing.T) {
	t.Parallel()
	const verifier = "0123456789012345678901234567890123456789012"
	for name, c := range map[string]struct {
		person          idp.Claims
		nonce, verifier string
		change          func(r *rig)
		status          int
	}{
		"as it should be":    {idp.Claims{"groups": []string{"say"}}, "n", verifier, nil, 0},
		"another nonce":      {idp.Claims{"groups": []string{"say"}}, "other", verifier, nil, 401},
		"a replayed token":   {idp.Claims{"groups": []string{"say"}, "nonce": "replayed"}, "n", verifier, nil, 401},
		"no nonce":           {idp.Claims{"groups": []string{"say"}, "nonce": nil}, "n", verifier, nil, 401},
		"another verifier":   {idp.Claims{"groups": []string{"say"}}, "n", strings.Repeat("x", 43), nil, 502},
		"another audience":   {idp.Claims{"groups": []string{"say"}, "aud": "acp"}, "n", verifier, nil, 401},
		"no group":           {idp.Claims{}, "n", verifier, nil, 403},
		"the wrong secret":   {idp.Claims{"groups": []string{"say"}}, "n", verifier, func(r *rig) { _ = os.WriteFile(r.SecretFile, []byte("x"), 0o600) }, 502},
		"an open secret":     {idp.Claims{"groups": []string{"say"}}, "n", verifier, func(r *rig) { _ = os.Chmod(r.SecretFile, 0o644) }, 502},
		"it is down by then": {idp.Claims{"groups": []string{"say"}}, "n", verifier, func(r *rig) { r.idp.Down(true) }, 502},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.idp.Person(c.person)
			address, rejection := r.SignInURL("s", "n", verifier)
			if rejection != nil {
				t.Fatal(rejection)
			}
			back := visit(t, address)
			if back.Get("state") != "s" {
				t.Errorf("the state is %q", back.Get("state"))
			}
			if c.change != nil {
				c.change(r)
			}
			caller, rejection := r.SignedIn(t.Context(), back.Get("code"), c.nonce, c.verifier)
			if status := statusOf(rejection); status != c.status || status == 0 && (caller.Role != "approver" || !caller.Valid()) {
				t.Fatalf("%+v, %v", caller, rejection)
			}
			if rejection == nil { // a code is good once
				if _, rejection = r.SignedIn(context.Background(), back.Get("code"), "n", verifier); rejection == nil {
					t.Error("the code is good twice")
				}
			}
		})
	}
}

func statusOf(r *auth.Rejection) int {
	if r == nil {
		return 0
	}
	return r.Status
}

func TestClaims_OfManyForms(t *testing.T) {
	claims := map[string]any{"https://x/roles": []any{"a", 1, "b"}, "realm_access": map[string]any{"roles": []any{"c"}}, "group": "d", "a.b": "e"}
	for name, want := range map[string]string{"https://x/roles": "a b", "realm_access.roles": "c", "group": "d", "a.b": "e", "realm_access": "", "group.x": "", "x.y": "", "": ""} {
		if got := strings.Join(stringsOf(claimAt(claims, name)), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	for bearer, want := range map[string]bool{"acphost_abc": false, "eyJ.eyJ.x": true, "eyJ.x": false, "": false, "a.b.c": false} {
		if IsToken(bearer) != want {
			t.Errorf("%q", bearer)
		}
	}
}
