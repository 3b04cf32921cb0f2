// Package idp is an OpenID Connect provider for tests: it signs any claims, with RSA and elliptic curve keys, and signs
// in every visitor of its sign-in page.
//
// It must not import a package of acphost, so that errors in those cannot cancel out in a test.
package idp

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"
)

// The credentials of the provider's client.
const (
	Client = "gatewayd"
	Secret = "s3cret"
)

// Claims are the claims of a token.
type Claims map[string]any

// Provider is a running provider. Safe for concurrent use.
type Provider struct {
	// URL is the issuer.
	URL string

	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex // guards the fields below
	serial  int
	rsa     *rsa.PrivateKey
	ec      *ecdsa.PrivateKey
	person  Claims
	codes   map[string]url.Values
	down    bool
	fetched int
}

// New starts a provider. It stops at the end of the test.
func New(t testing.TB) *Provider {
	t.Helper()
	p := &Provider{t: t, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", p.about)
	mux.HandleFunc("GET /keys", p.keys)
	mux.HandleFunc("GET /authorize", p.authorize)
	mux.HandleFunc("POST /token", p.token)
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		down := p.down
		p.mu.Unlock()
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(p.server.Close)
	p.URL = p.server.URL
	p.Rotate()
	return p
}

// Rotate replaces the keys.
func (p *Provider) Rotate() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.serial++
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ec, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// Down makes the provider fail, or work again.
func (p *Provider) Down(down bool) { p.mu.Lock(); defer p.mu.Unlock(); p.down = down }

// Person sets the claims of the tokens of later sign-ins, in addition to those that the flow sets.
func (p *Provider) Person(c Claims) { p.mu.Lock(); defer p.mu.Unlock(); p.person = c }

// Fetched returns how often the keys were read.
func (p *Provider) Fetched() int { p.mu.Lock(); defer p.mu.Unlock(); return p.fetched }

// Claims returns the claims of a valid token for an audience, with changes; a nil value removes a claim.
func (p *Provider) Claims(audience string, change Claims) Claims {
	now := time.Now()
	c := Claims{"iss": p.URL, "aud": audience, "sub": "u-1", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(c, change)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// Sign returns a token with claims: alg is RS256, ES256, "none", or HS256, which uses the public key as the secret.
func (p *Provider) Sign(alg string, c Claims) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sign(alg, "JWT", c)
}

// SignTyped is Sign with another "typ" in the token's header.
func (p *Provider) SignTyped(alg, typ string, c Claims) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sign(alg, typ, c)
}

func (p *Provider) sign(alg, typ string, c Claims) string {
	text := encode(Claims{"alg": alg, "typ": typ, "kid": fmt.Sprint(alg, p.serial)}) + "." + encode(c)
	digest := sha256.Sum256([]byte(text))
	var signature []byte
	switch alg {
	case "RS256":
		signature, _ = rsa.SignPKCS1v15(rand.Reader, p.rsa, crypto.SHA256, digest[:])
	case "ES256":
		r, s, _ := ecdsa.Sign(rand.Reader, p.ec, digest[:])
		signature = append(r.FillBytes(make([]byte, 32)), s.FillBytes(make([]byte, 32))...)
	case "HS256":
		der, _ := x509.MarshalPKIXPublicKey(&p.rsa.PublicKey)
		mac := hmac.New(sha256.New, pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
		mac.Write([]byte(text))
		signature = mac.Sum(nil)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func encode(c Claims) string {
	b, _ := json.Marshal(c)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (p *Provider) about(w http.ResponseWriter, _ *http.Request) {
	say(w, Claims{
		"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
		// A client must not trust this list.
		"id_token_signing_alg_values_supported": []string{"RS256", "ES256", "HS256", "none"},
	})
}

func (p *Provider) keys(w http.ResponseWriter, _ *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fetched++
	text := func(n *big.Int, size int) string {
		return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
	}
	point, _ := p.ec.PublicKey.Bytes()
	say(w, Claims{"keys": []Claims{
		{"kty": "RSA", "use": "sig", "kid": fmt.Sprint("RS256", p.serial), "n": text(p.rsa.N, 256), "e": "AQAB"},
		{"kty": "EC", "use": "sig", "kid": fmt.Sprint("ES256", p.serial), "crv": "P-256",
			"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:])},
	}})
}

// authorize signs in every visitor at once, and redirects the browser back.
func (p *Provider) authorize(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	code := rand.Text()
	p.mu.Lock()
	p.codes[code] = q
	p.mu.Unlock()
	http.Redirect(w, r, q.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {q.Get("state")}}.Encode(), http.StatusFound)
}

// token returns a token for a code, once, to a caller with the client's secret and the verifier of the code's
// challenge.
func (p *Provider) token(w http.ResponseWriter, r *http.Request) {
	id, secret, ok := r.BasicAuth()
	if !ok {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	challenge := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	p.mu.Lock()
	defer p.mu.Unlock()
	q := p.codes[r.PostFormValue("code")]
	delete(p.codes, r.PostFormValue("code"))
	if q == nil || id != Client || secret != Secret || q.Get("client_id") != Client || q.Get("redirect_uri") != r.PostFormValue("redirect_uri") ||
		q.Get("code_challenge_method") != "S256" || q.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(challenge[:]) {
		http.Error(w, `{"error": "invalid_grant"}`, http.StatusBadRequest)
		return
	}
	c := p.Claims(Client, Claims{"nonce": q.Get("nonce")})
	maps.Copy(c, p.person)
	say(w, Claims{"access_token": "opaque", "token_type": "Bearer", "id_token": p.sign("ES256", "JWT", c)})
}

func say(w http.ResponseWriter, c Claims) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(c)
}
