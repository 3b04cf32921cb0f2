// Package oidc authenticates people with an OpenID Connect provider: by tokens that the provider has signed, and by its
// sign-in page (authorization code flow with PKCE).
//
// It knows one provider, its tokens, and the roles of its groups. It must not know how a request carries a token, nor
// what a browser stores.
package oidc

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"github.com/acphost/acphost/internal/delegation"
	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

const (
	// callTimeout is the timeout of a call to the provider.
	callTimeout = 10 * time.Second
	// refresh is how long the provider's metadata and keys are cached.
	refresh = time.Hour
	// minInterval is the minimum time between two equal requests to the provider: every caller can send a token with an
	// unknown key.
	minInterval = 5 * time.Second
	// maxAnswer bounds a response of the provider, in bytes.
	maxAnswer = 1 << 20
)

// algorithms are the accepted signature algorithms: asymmetric ones only, whatever the provider advertises.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Options configure a Provider.
type Options struct {
	// Issuer is the provider's URL.
	Issuer string
	// ClientID is the client id for the sign-in page; "": sign-in is off. SecretFile has the client's secret; "": none.
	ClientID, SecretFile string
	// Redirect is the URL to which the provider returns browsers, and Scopes are requested in addition to "openid".
	Redirect string
	Scopes   []string
	// Audience is the audience of bearer tokens; "": bearer tokens are rejected.
	Audience string
	// Parties are further clients of the provider whose tokens (azp, client_id) for Audience are accepted.
	Parties []string
	// RoleClaim is the claim with a person's groups, "groups"; a dot selects a member of an object. Roles maps groups
	// to roles.
	RoleClaim string
	Roles     map[string]string
	Logger    *slog.Logger
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

// Provider authenticates people. Safe for concurrent use.
type Provider struct {
	Options
	client    *http.Client
	transport *rateLimitedTransport

	mu     sync.Mutex // guards the fields below
	cached *providerMetadata
	expiry time.Time // when the cache expires
}

// providerMetadata is the cached metadata of the provider.
type providerMetadata struct {
	endpoint        oauth2.Endpoint
	bearer, browser *oidc.IDTokenVerifier
}

// New returns a Provider, which calls the provider when it first needs to.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &rateLimitedTransport{next: http.DefaultTransport, now: o.Now, asked: map[string]answer{}}
	return &Provider{Options: o, transport: s, client: &http.Client{
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     s,
	}}
}

// Name returns the provider's name for people.
func (p *Provider) Name() string {
	if u, err := url.Parse(p.Issuer); err == nil {
		return u.Host
	}
	return p.Issuer
}

// metadata returns the provider's metadata, from the cache if possible.
func (p *Provider) metadata() (*providerMetadata, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if p.cached != nil && now.Before(p.expiry) {
		return p.cached, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), p.client), callTimeout)
	defer cancel()
	got, err := oidc.NewProvider(ctx, p.Issuer)
	switch {
	case err != nil && p.cached == nil:
		return nil, fmt.Errorf("ask the provider %s about itself: %w", p.Issuer, err)
	case err != nil:
		p.Logger.Warn("the OpenID Connect provider does not answer; its earlier answers are used", "issuer", p.Issuer, "error", err)
		p.expiry = now.Add(refresh / 60)
		return p.cached, nil
	}
	verifier := func(audience string) *oidc.IDTokenVerifier {
		return got.Verifier(&oidc.Config{ClientID: audience, SupportedSigningAlgs: algorithms, Now: p.Now})
	}
	p.transport.forget() // the keys are read again, too
	p.cached, p.expiry = &providerMetadata{got.Endpoint(), verifier(p.Audience), verifier(p.ClientID)}, now.Add(refresh)
	return p.cached, nil
}

// IsToken reports whether a bearer token has the form of a provider's token. Tokens of acphost have no dots.
func IsToken(bearer string) bool {
	return strings.Count(bearer, ".") == 2 && strings.HasPrefix(bearer, "ey")
}

// Bearer returns the owner of a bearer token.
func (p *Provider) Bearer(ctx context.Context, token string) (auth.Caller, *auth.Rejection) {
	if p.Audience == "" {
		return auth.Caller{}, p.reject(http.StatusUnauthorized, "tokens of "+p.Name()+" are not accepted here: --oidc-audience selects accepted tokens", nil)
	}
	f, err := p.metadata()
	if err != nil {
		return auth.Caller{}, p.reject(http.StatusServiceUnavailable, p.Name()+" cannot be asked about the token now: try again later, or use a token of \"acphost tokens create\"", err)
	}
	got, err := f.bearer.Verify(ctx, token)
	if err == nil {
		err = checkClaims(token, append([]string{p.Audience, p.ClientID}, p.Parties...), p.Now())
	}
	if err != nil {
		return auth.Caller{}, p.invalid(err)
	}
	caller, rejection := p.caller(got)
	caller.Valid = func() bool { return p.Now().Before(got.Expiry) }
	return caller, rejection
}

// SignInURL returns the URL of the provider's sign-in page. The three texts belong to the browser, and are hard to
// guess.
func (p *Provider) SignInURL(state, nonce, verifier string) (string, *auth.Rejection) {
	f, err := p.metadata()
	if err != nil {
		return "", p.reject(http.StatusServiceUnavailable, p.Name()+" cannot be reached now: try again later, or sign in by a code or a token", err)
	}
	return p.config(f).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

func (p *Provider) config(f *providerMetadata) *oauth2.Config {
	return &oauth2.Config{ClientID: p.ClientID, Endpoint: f.endpoint, RedirectURL: p.Redirect, Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}
}

// SignedIn returns the person that has signed in at the provider's page, by the code that the browser got there.
func (p *Provider) SignedIn(ctx context.Context, code, nonce, verifier string) (auth.Caller, *auth.Rejection) {
	f, err := p.metadata()
	config := &oauth2.Config{}
	if err == nil {
		config = p.config(f)
		if p.SecretFile != "" { // read for each sign-in, so that it can be changed
			var secret []byte
			secret, err = keyfiles.ReadPrivate(p.SecretFile)
			config.ClientSecret = strings.TrimSpace(string(secret))
		}
	}
	var tokens *oauth2.Token
	if err == nil {
		tokens, err = config.Exchange(oidc.ClientContext(ctx, p.client), code, oauth2.VerifierOption(verifier))
	}
	if err != nil {
		return auth.Caller{}, p.reject(http.StatusBadGateway, p.Name()+" did not identify you: sign in again; gatewayd's log has the reason", err)
	}
	id, _ := tokens.Extra("id_token").(string)
	got, err := f.browser.Verify(ctx, id)
	if err == nil && subtle.ConstantTimeCompare([]byte(got.Nonce), []byte(nonce)) != 1 {
		err = errors.New("its nonce is that of another sign-in")
	}
	if err == nil {
		err = checkClaims(id, []string{p.ClientID}, p.Now())
	}
	if err != nil {
		return auth.Caller{}, p.invalid(err)
	}
	caller, rejection := p.caller(got)
	caller.Valid = func() bool { return true } // the browser's session has its own lifetime
	return caller, rejection
}

// invalid returns the refusal of an invalid token.
func (p *Provider) invalid(err error) *auth.Rejection {
	text := "gatewayd's log has the reason"
	if expired := (*oidc.TokenExpiredError)(nil); errors.As(err, &expired) {
		text = "it has expired"
	}
	return p.reject(http.StatusUnauthorized, "the token of "+p.Name()+" does not count: "+text, err)
}

func (p *Provider) reject(status int, text string, err error) *auth.Rejection {
	if err != nil {
		text := err.Error()
		p.Logger.Warn("a caller was rejected by OpenID Connect", "issuer", p.Issuer, "reason", text, "error", text[:min(len(text), 500)])
	}
	return &auth.Rejection{Status: status, Text: text}
}

// caller returns the owner of a valid token: by their e-mail address, if the provider has verified it, or by the unique
// subject. People may be able to choose other names.
func (p *Provider) caller(token *oidc.IDToken) (auth.Caller, *auth.Rejection) {
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return auth.Caller{}, p.invalid(err)
	}
	name := token.Subject
	if email, _ := claims["email"].(string); email != "" && claims["email_verified"] == true {
		name = email
	}
	digest := sha256.Sum256([]byte(token.Issuer + "\x00" + token.Subject))
	w := auth.Caller{ID: "oidc " + hex.EncodeToString(digest[:8]), Name: delegation.Presentable(name, delegation.MaxName)}
	for _, group := range stringsOf(claimAt(claims, p.RoleClaim)) {
		if role := p.Roles[group]; role != "" && !w.HasRole(role) {
			w.Role = role
		}
	}
	if w.Role == "" || token.Subject == "" {
		return auth.Caller{}, p.reject(http.StatusForbidden, fmt.Sprintf("%s knows you as %s, and gives you none of the groups that have a role here: "+
			"the operator of this gateway sets them by --oidc-role", p.Name(), w.Name), errors.New("no group with a role in the claim "+p.RoleClaim))
	}
	return w, nil
}

// claimAt returns a claim; a dot selects a member of an object, unless the claim's own name contains the dot.
func claimAt(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, _ := strings.Cut(name, ".")
	inner, _ := claims[first].(map[string]any)
	if inner == nil || rest == "" {
		return nil
	}
	return claimAt(inner, rest)
}

// stringsOf returns the strings of a claim: a single one, or a list.
func stringsOf(value any) (all []string) {
	switch value := value.(type) {
	case string:
		return []string{value}
	case []any:
		for _, v := range value {
			if text, ok := v.(string); ok {
				all = append(all, text)
			}
		}
	}
	return all
}

// rateLimitedTransport is a transport that limits how often the same request is sent to a provider.
type rateLimitedTransport struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex // guards the fields below
	asked map[string]answer
}

// answer is when a request was sent, and its error.
type answer struct {
	sent time.Time
	err  error
}

func (s *rateLimitedTransport) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.asked)
}

// RoundTrip implements http.RoundTripper.
func (s *rateLimitedTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	key := req.URL.String()
	if req.Method == http.MethodGet {
		s.mu.Lock()
		last, ok := s.asked[key]
		if ok && s.now().Sub(last.sent) < minInterval {
			s.mu.Unlock()
			if last.err == nil {
				last.err = fmt.Errorf("%s was asked less than %v ago", req.URL.Host, minInterval)
			}
			return nil, last.err
		}
		s.asked[key] = answer{sent: s.now()}
		s.mu.Unlock()
	}
	res, err := s.next.RoundTrip(req)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.asked[key]; ok { // counted from now, however long it took: others wait for the same answer
			s.asked[key] = answer{s.now(), err}
		}
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}
