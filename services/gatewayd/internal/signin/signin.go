// Package signin signs browsers in. A browser shows a code, a person types it on the gateway's machine, and the browser
// gets a cookie. Alternatively, the person gives the browser a token.
//
// Two secrets prove that a request is from a signed-in browser: a cookie, which scripts cannot read, and a secret that
// the page keeps and sends in a header. One is not enough. Cookies are not bound to a port: any other server on the
// same host, such as one that an agent has started, gets the browser's cookies when a person opens it. And a flaw in a
// script could reveal the page's secret.
//
// A browser that only requests a code uses no memory here: the code is computed from the browser's two secrets. So
// requests for a million codes keep no other browser out.
//
// The package knows sign-ins. It must not know HTTP paths, nor how a person confirms.
package signin

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/tokens"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
)

const (
	// CodeLifetime is how long a code can be confirmed.
	CodeLifetime = 5 * time.Minute
	// DefaultLifetime is how long a browser stays signed in.
	DefaultLifetime = 8 * time.Hour
	// MaxLifetime is how long a browser may stay signed in.
	MaxLifetime = 7 * 24 * time.Hour
	// browserTimeout is how long AwaitBrowser waits for a browser to report that it shows a code: browsers poll every
	// other second.
	browserTimeout = 10 * time.Second
	// confirmTimeout is how long a person may take to confirm, and the browser then to sign in.
	confirmTimeout = 2 * time.Minute
	// maxConfirmations bounds the codes that are being confirmed, maxSessions the signed-in browsers.
	maxConfirmations, maxSessions = 32, 1000
	// codeAlphabet are the letters of codes: no two look alike.
	codeAlphabet = "23456789abcdefghjkmnpqrstuvwxyz"
	// codeLength is the length of a code: 49 bits, of which an attacker would have to guess one of maxOffers within
	// minutes.
	codeLength = 10
	// secretLength is how many random bytes a secret has.
	secretLength = 32
)

// Browser describes a browser.
type Browser struct {
	// Address is its network address.
	Address string
	// Agent is its User-Agent.
	Agent string
}

// Secrets are the two secrets of a browser: the cookie's, and the page's.
type Secrets struct{ Cookie, Page string }

// Session is a signed-in browser.
type Session struct {
	// ID identifies it to people. It is no secret.
	ID   string
	Role string
	// Method is "code", or the ID of the auth.Caller with which the browser signed in. Name is its name; it may be
	// empty.
	Method, Name     string
	Created, Expires time.Time
	Browser          Browser

	page  [sha256.Size]byte
	valid func() bool
}

// The errors of confirming a code.
var (
	ErrNoBrowser = errors.New("no browser shows this code: is it the one on the page, and is the page open? A code is good for 5 minutes")
	// ErrUsed: the code has signed in a browser already.
	ErrUsed = errors.New("this code has been used: each code signs in one browser once; reload the page for another one")
	// ErrExpired: the browser's code has expired.
	ErrExpired      = errors.New("the code has ended")
	ErrTooManyCodes = errors.New("too many codes are being confirmed: try again in 2 minutes")
	ErrRole         = errors.New("the role is not viewer, approver or operator")
	ErrLifetime     = errors.New("a browser can be signed in for at most 7 days")
	ErrFull         = errors.New("too many browsers are signed in: sign one out")
)

// Broker signs browsers in. Safe for concurrent use.
type Broker struct {
	now func() time.Time
	key [32]byte // of codes

	mu            sync.Mutex // guards the fields below
	confirmations map[string]*confirmation
	used          map[string]time.Time           // codes that have signed in a browser, until they expire
	sessions      map[[sha256.Size]byte]*Session // by the digest of the cookie
}

// confirmation is a code that a person has typed.
type confirmation struct {
	ends    time.Time
	shown   chan struct{} // closed once a browser has reported that it shows the code
	browser *Browser
	// confirmed: the browser is signed in at its next request. Then came is closed.
	confirmed bool
	role      string
	lifetime  time.Duration
	done      chan struct{}
	session   *Session
	err       error
}

// New returns a Broker. now returns the time; nil: time.Now.
func New(now func() time.Time) *Broker {
	d := &Broker{now: now, confirmations: map[string]*confirmation{}, used: map[string]time.Time{}, sessions: map[[sha256.Size]byte]*Session{}}
	if d.now == nil {
		d.now = time.Now
	}
	_, _ = rand.Read(d.key[:]) // never fails
	return d
}

// Begin returns the secrets of a browser that wants to sign in, and the code that it shows until expires.
func (d *Broker) Begin() (s Secrets, code string, expires time.Time) {
	expires = d.now().Add(CodeLifetime).Truncate(time.Second)
	page := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	s = Secrets{Cookie: random(), Page: base64.RawURLEncoding.EncodeToString(append(page, randomBytes()...))}
	return s, d.code(s), expires
}

// fresh reports whether secrets have the form of Begin's, and have not expired.
func (d *Broker) fresh(s Secrets) bool {
	page, err := base64.RawURLEncoding.DecodeString(s.Page)
	return err == nil && len(page) == 8+secretLength && s.Cookie != "" && d.now().Before(time.Unix(int64(binary.BigEndian.Uint64(page)), 0))
}

// ProviderParams returns the texts that identify a browser with secrets of Begin while it signs in at an OpenID Connect
// provider. They can only be computed with both secrets and this Broker's key. ok is false if the secrets are invalid
// or expired.
func (d *Broker) ProviderParams(s Secrets) (state, nonce, verifier string, ok bool) {
	text := func(purpose string) string { return base64.RawURLEncoding.EncodeToString(d.mac(purpose, s)) }
	return text("state"), text("nonce"), text("verifier"), d.fresh(s)
}

// mac returns a MAC of a browser's secrets, for a purpose.
func (d *Broker) mac(purpose string, s Secrets) []byte {
	mac := hmac.New(sha256.New, d.key[:])
	_, _ = mac.Write([]byte(purpose + "\x00" + s.Cookie + "\x00" + s.Page))
	return mac.Sum(nil)
}

// code returns the code of a browser.
func (d *Broker) code(s Secrets) string {
	n := binary.BigEndian.Uint64(d.mac("code", s))
	var b strings.Builder
	for i := range codeLength {
		if i == codeLength/2 {
			b.WriteByte('-')
		}
		b.WriteByte(codeAlphabet[n%uint64(len(codeAlphabet))])
		n /= uint64(len(codeAlphabet))
	}
	return b.String()
}

// NormalizeCode returns a code in the form for comparison: people type other cases, spaces and dashes.
func NormalizeCode(code string) string {
	code = strings.Map(func(c rune) rune {
		if strings.ContainsRune(codeAlphabet, c) {
			return c
		}
		return -1
	}, strings.ToLower(code))
	if len(code) != codeLength {
		return ""
	}
	return code[:codeLength/2] + "-" + code[codeLength/2:]
}

// Claim signs in a browser whose code was confirmed. A nil Session without an error: not confirmed yet. ErrExpired: the
// browser's code has expired, or has been used.
//
// check returns why the browser must not be signed in; nil: it may. It is called once a person has typed the code. Its
// error is returned, shown to the person, and the browser is rejected.
func (d *Broker) Claim(s Secrets, from Browser, check func() error) (got *Session, secrets Secrets, err error) {
	if !d.fresh(s) {
		return nil, Secrets{}, ErrExpired
	}
	code := d.code(s)
	if !d.isPending(code) {
		return d.claim(code, from)
	}
	if err := check(); err != nil {
		d.reject(code, err)
		return nil, Secrets{}, err
	}
	return d.claim(code, from)
}

// isPending reports whether a person has typed a code.
func (d *Broker) isPending(code string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.confirmations[code] != nil
}

// reject ends the confirmation of a code with an error.
func (d *Broker) reject(code string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.confirmations[code]
	if o == nil || o.err != nil {
		return
	}
	delete(d.confirmations, code)
	o.err = why
	if o.browser == nil {
		close(o.shown)
	}
	close(o.done)
}

func (d *Broker) claim(code string, from Browser) (got *Session, secrets Secrets, err error) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.confirmations[code]
	switch {
	case !d.used[code].IsZero():
		return nil, Secrets{}, ErrExpired
	case o == nil || !now.Before(o.ends):
		return nil, Secrets{}, nil
	case o.browser == nil:
		o.browser = &from
		close(o.shown)
		return nil, Secrets{}, nil
	case !o.confirmed:
		return nil, Secrets{}, nil
	}
	delete(d.confirmations, code)
	d.used[code] = now.Add(CodeLifetime)
	defer close(o.done)
	o.session, secrets, o.err = d.add(&Session{Role: o.role, Method: "code", Expires: now.Add(o.lifetime), Browser: from, valid: func() bool { return true }})
	return o.session, secrets, o.err
}

// SignIn signs in a browser that has authenticated with a token or at a provider.
func (d *Broker) SignIn(caller auth.Caller, from Browser) (*Session, Secrets, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add(&Session{Role: caller.Role, Method: caller.ID, Name: caller.Name, Expires: d.now().Add(DefaultLifetime), Browser: from, valid: caller.Valid})
}

// add adds a session. The lock is held.
func (d *Broker) add(s *Session) (*Session, Secrets, error) {
	d.sweep()
	if len(d.sessions) >= maxSessions {
		return nil, Secrets{}, ErrFull
	}
	secrets := Secrets{Cookie: random(), Page: random()}
	s.ID, s.Created = hex.EncodeToString(randomBytes()[:6]), d.now()
	s.page = sha256.Sum256([]byte(secrets.Page))
	d.sessions[sha256.Sum256([]byte(secrets.Cookie))] = s
	return s, secrets, nil
}

// sweep removes expired codes and sessions. The lock is held.
func (d *Broker) sweep() {
	now := d.now()
	for key, s := range d.sessions {
		if !now.Before(s.Expires) || !s.valid() {
			delete(d.sessions, key)
		}
	}
	for code, until := range d.used {
		if !now.Before(until) {
			delete(d.used, code)
		}
	}
	for code, o := range d.confirmations {
		if !now.Before(o.ends) {
			delete(d.confirmations, code)
		}
	}
}

// Find returns the identity of a signed-in browser.
func (d *Broker) Find(s Secrets) (auth.Caller, Session, bool) {
	key, page := sha256.Sum256([]byte(s.Cookie)), sha256.Sum256([]byte(s.Page))
	valid := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.validSession(key) != nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.validSession(key)
	if found == nil || subtle.ConstantTimeCompare(found.page[:], page[:]) != 1 {
		return auth.Caller{}, Session{}, false
	}
	return auth.Caller{ID: "console " + found.ID, Name: found.Name, Role: found.Role, Valid: valid}, *found, true
}

// validSession returns the valid session of a cookie. The lock is held.
func (d *Broker) validSession(key [sha256.Size]byte) *Session {
	s := d.sessions[key]
	if s == nil || !d.now().Before(s.Expires) || !s.valid() {
		return nil
	}
	return s
}

// AwaitBrowser waits until a browser reports that it shows a code, and returns the browser. It returns ErrNoBrowser if
// none does.
func (d *Broker) AwaitBrowser(ctx context.Context, code string) (Browser, error) {
	if code = NormalizeCode(code); code == "" { // no browser can show it
		return Browser{}, ErrNoBrowser
	}
	d.mu.Lock()
	d.sweep()
	if !d.used[code].IsZero() {
		d.mu.Unlock()
		return Browser{}, ErrUsed
	}
	o := d.confirmations[code]
	if o == nil {
		if len(d.confirmations) >= maxConfirmations {
			d.mu.Unlock()
			return Browser{}, ErrTooManyCodes
		}
		o = &confirmation{ends: d.now().Add(confirmTimeout), shown: make(chan struct{}), done: make(chan struct{})}
		d.confirmations[code] = o
	}
	d.mu.Unlock()
	if !wait(ctx, o.shown) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if o.browser == nil {
			if d.confirmations[code] == o {
				delete(d.confirmations, code)
			}
			return Browser{}, ErrNoBrowser
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if o.err != nil {
		return Browser{}, o.err
	}
	return *o.browser, nil
}

// wait waits until a channel is closed, at most lookFor.
func wait(ctx context.Context, c <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, browserTimeout)
	defer cancel()
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// Confirm confirms a code, for which AwaitBrowser has found a browser, and waits until the browser is signed in.
func (d *Broker) Confirm(ctx context.Context, code, role string, lifetime time.Duration) (Session, error) {
	switch {
	case !slices.Contains(tokens.Roles(), role):
		return Session{}, ErrRole
	case lifetime < time.Second || lifetime > MaxLifetime:
		return Session{}, ErrLifetime
	}
	code = NormalizeCode(code)
	d.mu.Lock()
	d.sweep()
	o := d.confirmations[code]
	used := !d.used[code].IsZero()
	if used || o == nil || o.browser == nil || o.confirmed {
		d.mu.Unlock()
		if used {
			return Session{}, ErrUsed
		}
		return Session{}, ErrNoBrowser
	}
	o.confirmed, o.role, o.lifetime = true, role, lifetime
	d.mu.Unlock()
	done := wait(ctx, o.done)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case o.err != nil:
		return Session{}, o.err
	case !done && o.session == nil:
		delete(d.confirmations, code)
		return Session{}, ErrNoBrowser
	}
	return *o.session, nil
}

// Sessions returns the signed-in browsers, oldest first.
func (d *Broker) Sessions() []Session {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	var all []Session
	for _, s := range d.sessions {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Session) int {
		if c := a.Created.Compare(b.Created); c != 0 {
			return c
		}
		return strings.Compare(a.ID, b.ID)
	})
	return all
}

// End signs out the session with an id, and reports whether there was one.
func (d *Broker) End(id string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sweep()
	for key, s := range d.sessions {
		if s.ID == id {
			delete(d.sessions, key)
			return true
		}
	}
	return false
}

func random() string { return base64.RawURLEncoding.EncodeToString(randomBytes()) }

func randomBytes() []byte {
	b := make([]byte, secretLength)
	_, _ = rand.Read(b) // never fails
	return b
}
