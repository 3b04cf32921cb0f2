// Package oidc recognizes people by a provider of OpenID Connect: by tokens that the provider has signed, and by its
// sign-in page (authorization code flow with PKCE).
//
// It knows one provider, its tokens, and which of its groups has which role. It must not know how a request carries a
// token, nor what a browser keeps.
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
	// callTimeout is how long the provider may take to answer.
	callTimeout = 10 * time.Second
	// refresh is how long what the provider says of itself, and which keys it has, counts before it is asked again.
	refresh = time.Hour
	// apart is the least time between two questions of the same to the provider: anybody can send a token of a key that
	// it does not know.
	apart = 5 * time.Second
	// maxAnswer bounds an answer of the provider, in bytes.
	maxAnswer = 1 << 20
)

// algorithms are those of signatures that count: asymmetric ones, whatever the provider says.
var algorithms = []string{
	oidc.RS256, oidc.RS384, oidc.RS512, oidc.PS256, oidc.PS384, oidc.PS512, oidc.ES256, oidc.ES384, oidc.ES512, oidc.EdDSA,
}

// Options are what a Provider is made of.
type Options struct {
	// Issuer is the provider's URL.
	Issuer string
	// ClientID is that of the sign-in page; "": nobody signs in there. SecretFile has the client's secret; "": there is
	// none.
	ClientID, SecretFile string
	// Redirect is where the provider sends browsers back to, and Scopes is what it is asked for beside "openid".
	Redirect string
	Scopes   []string
	// Audience is that of bearer tokens; "": none are taken.
	Audience string
	// Parties are further clients of the provider whose tokens (azp, client_id) for Audience are taken.
	Parties []string
	// RoleClaim is the claim with a person's groups, "groups"; a dot leads into an object. Roles are the roles of groups.
	RoleClaim string
	Roles     map[string]string
	Logger    *slog.Logger
	// Now is the time. Default: time.Now.
	Now func() time.Time
}

// Provider recognizes people. Safe for concurrent use.
type Provider struct {
	Options
	client *http.Client
	seldom *seldom

	mu    sync.Mutex // guards what follows
	found *found
	until time.Time // when it is asked again
}

// found is what the provider says of itself.
type found struct {
	endpoint        oauth2.Endpoint
	bearer, browser *oidc.IDTokenVerifier
}

// New returns a Provider, which is asked when somebody first needs it.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &seldom{next: http.DefaultTransport, now: o.Now, asked: map[string]answer{}}
	return &Provider{Options: o, seldom: s, client: &http.Client{
		Timeout:       callTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport:     s,
	}}
}

// Name is what people are shown of it.
func (p *Provider) Name() string {
	if u, err := url.Parse(p.Issuer); err == nil {
		return u.Host
	}
	return p.Issuer
}

// ask returns what the provider says of itself, now or lately.
func (p *Provider) ask() (*found, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.Now()
	if p.found != nil && now.Before(p.until) {
		return p.found, nil
	}
	ctx, cancel := context.WithTimeout(oidc.ClientContext(context.Background(), p.client), callTimeout)
	defer cancel()
	got, err := oidc.NewProvider(ctx, p.Issuer)
	switch {
	case err != nil && p.found == nil:
		return nil, fmt.Errorf("ask the provider %s about itself: %w", p.Issuer, err)
	case err != nil:
		p.Logger.Warn("the provider of OpenID Connect does not answer; what it said before counts", "issuer", p.Issuer, "error", err)
		p.until = now.Add(refresh / 60)
		return p.found, nil
	}
	verifier := func(audience string) *oidc.IDTokenVerifier {
		return got.Verifier(&oidc.Config{ClientID: audience, SupportedSigningAlgs: algorithms, Now: p.Now})
	}
	p.seldom.forget() // the keys are read again, too
	p.found, p.until = &found{got.Endpoint(), verifier(p.Audience), verifier(p.ClientID)}, now.Add(refresh)
	return p.found, nil
}

// IsToken reports whether a bearer is meant to be one of a provider's tokens. Those of acphost have no dots.
func IsToken(bearer string) bool {
	return strings.Count(bearer, ".") == 2 && strings.HasPrefix(bearer, "ey")
}

// Bearer says whose a bearer token is.
func (p *Provider) Bearer(ctx context.Context, token string) (auth.Who, *auth.Refusal) {
	if p.Audience == "" {
		return auth.Who{}, p.refuse(http.StatusUnauthorized, "tokens of "+p.Name()+" are not taken here: --oidc-audience says which are", nil)
	}
	f, err := p.ask()
	if err != nil {
		return auth.Who{}, p.refuse(http.StatusServiceUnavailable, p.Name()+" cannot be asked about the token now: try again later, or use a token of \"acphost tokens create\"", err)
	}
	got, err := f.bearer.Verify(ctx, token)
	if err == nil {
		err = checkClaims(token, append([]string{p.Audience, p.ClientID}, p.Parties...), p.Now())
	}
	if err != nil {
		return auth.Who{}, p.invalid(err)
	}
	who, refusal := p.who(got)
	who.Stands = func() bool { return p.Now().Before(got.Expiry) }
	return who, refusal
}

// SignInURL is the provider's page for a browser that signs in. The three texts are the browser's own, and hard to
// guess.
func (p *Provider) SignInURL(state, nonce, verifier string) (string, *auth.Refusal) {
	f, err := p.ask()
	if err != nil {
		return "", p.refuse(http.StatusServiceUnavailable, p.Name()+" cannot be reached now: try again later, or sign in by a code or a token", err)
	}
	return p.config(f).AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil
}

func (p *Provider) config(f *found) *oauth2.Config {
	return &oauth2.Config{ClientID: p.ClientID, Endpoint: f.endpoint, RedirectURL: p.Redirect, Scopes: append([]string{oidc.ScopeOpenID}, p.Scopes...)}
}

// SignedIn says who has signed in at the provider's page, by the code that it gave the browser.
func (p *Provider) SignedIn(ctx context.Context, code, nonce, verifier string) (auth.Who, *auth.Refusal) {
	f, err := p.ask()
	config := &oauth2.Config{}
	if err == nil {
		config = p.config(f)
		if p.SecretFile != "" { // it is read each time, so that it can be changed
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
		return auth.Who{}, p.refuse(http.StatusBadGateway, p.Name()+" did not say who you are: sign in again; gatewayd's log says why", err)
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
		return auth.Who{}, p.invalid(err)
	}
	who, refusal := p.who(got)
	who.Stands = func() bool { return true } // the browser's session has an end of its own
	return who, refusal
}

// invalid refuses a token that is not good.
func (p *Provider) invalid(err error) *auth.Refusal {
	words := "gatewayd's log says why"
	if expired := (*oidc.TokenExpiredError)(nil); errors.As(err, &expired) {
		words = "it has expired"
	}
	return p.refuse(http.StatusUnauthorized, "the token of "+p.Name()+" does not count: "+words, err)
}

func (p *Provider) refuse(status int, words string, err error) *auth.Refusal {
	if err != nil {
		text := err.Error()
		p.Logger.Warn("nobody was recognized by OpenID Connect", "issuer", p.Issuer, "told", words, "error", text[:min(len(text), 500)])
	}
	return &auth.Refusal{Status: status, Words: words}
}

// who is the owner of a token that is good: by their address, if the provider vouches for it, or by the name that it
// gives nobody else. Other names people may be able to choose.
func (p *Provider) who(token *oidc.IDToken) (auth.Who, *auth.Refusal) {
	var claims map[string]any
	if err := token.Claims(&claims); err != nil {
		return auth.Who{}, p.invalid(err)
	}
	name := token.Subject
	if email, _ := claims["email"].(string); email != "" && claims["email_verified"] == true {
		name = email
	}
	digest := sha256.Sum256([]byte(token.Issuer + "\x00" + token.Subject))
	w := auth.Who{ID: "oidc " + hex.EncodeToString(digest[:8]), Name: delegation.Presentable(name, delegation.MaxName)}
	for _, group := range texts(at(claims, p.RoleClaim)) {
		if role := p.Roles[group]; role != "" && !w.May(role) {
			w.Role = role
		}
	}
	if w.Role == "" || token.Subject == "" {
		return auth.Who{}, p.refuse(http.StatusForbidden, fmt.Sprintf("%s knows you as %s, and gives you none of the groups that have a role here: "+
			"whoever runs this gateway names them by --oidc-role", p.Name(), w.Name), errors.New("no group with a role in the claim "+p.RoleClaim))
	}
	return w, nil
}

// at is a claim; a dot leads into an object, unless the claim has it in its name.
func at(claims map[string]any, name string) any {
	if value, ok := claims[name]; ok {
		return value
	}
	first, rest, _ := strings.Cut(name, ".")
	inner, _ := claims[first].(map[string]any)
	if inner == nil || rest == "" {
		return nil
	}
	return at(inner, rest)
}

// texts are the texts of a claim: one, or a list.
func texts(value any) (all []string) {
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

// seldom is a transport that asks a provider the same thing only from time to time.
type seldom struct {
	next http.RoundTripper
	now  func() time.Time

	mu    sync.Mutex // guards what follows
	asked map[string]answer
}

// answer is when something was asked, and how that failed.
type answer struct {
	at  time.Time
	err error
}

func (s *seldom) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.asked)
}

// RoundTrip implements http.RoundTripper.
func (s *seldom) RoundTrip(req *http.Request) (*http.Response, error) {
	what := req.URL.String()
	if req.Method == http.MethodGet {
		s.mu.Lock()
		last, ok := s.asked[what]
		if ok && s.now().Sub(last.at) < apart {
			s.mu.Unlock()
			if last.err == nil {
				last.err = fmt.Errorf("%s was asked less than %v ago", req.URL.Host, apart)
			}
			return nil, last.err
		}
		s.asked[what] = answer{at: s.now()}
		s.mu.Unlock()
	}
	res, err := s.next.RoundTrip(req)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if _, ok := s.asked[what]; ok { // from now on, however long it took: others wait for the same
			s.asked[what] = answer{s.now(), err}
		}
		return nil, err
	}
	res.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(res.Body, maxAnswer), res.Body}
	return res, nil
}
