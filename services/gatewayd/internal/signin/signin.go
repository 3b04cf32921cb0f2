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
	// lookFor is how long Look waits for a browser to report that it shows a code: browsers poll every other second.
	lookFor = 10 * time.Second
	// offerLifetime is how long a person may take to confirm, and the browser then to sign in.
	offerLifetime = 2 * time.Minute
	// maxOffers bounds the codes that are being confirmed, maxSessions the signed-in browsers.
	maxOffers, maxSessions = 32, 1000
	// letters are the letters of codes: no two look alike.
	letters = "23456789abcdefghjkmnpqrstuvwxyz"
	// codeLetters is the length of a code: 49 bits, of which an attacker would have to guess one of maxOffers within
	// minutes.
	codeLetters = 10
	// secretBytes is how many random bytes a secret has.
	secretBytes = 32
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
	// How is "code", or the ID of the auth.Who with which the browser signed in. Name is its name; it may be empty.
	How, Name        string
	Created, Expires time.Time
	Browser          Browser

	page   [sha256.Size]byte
	stands func() bool
}

// The errors of confirming a code.
var (
	ErrNoBrowser = errors.New("no browser shows this code: is it the one on the page, and is the page open? A code is good for 5 minutes")
	// ErrUsed: the code has signed in a browser already.
	ErrUsed = errors.New("this code has been used: each code signs in one browser once; reload the page for another one")
	// ErrStale: the browser's code has expired.
	ErrStale    = errors.New("the code has ended")
	ErrOffers   = errors.New("too many codes are being confirmed: try again in 2 minutes")
	ErrRole     = errors.New("the role is none of viewer, approver, operator")
	ErrLifetime = errors.New("a browser can be signed in for at most 7 days")
	ErrFull     = errors.New("too many browsers are signed in: sign one out")
)

// Desk signs browsers in. Safe for concurrent use.
type Desk struct {
	now func() time.Time
	key [32]byte // of codes

	mu       sync.Mutex // guards the fields below
	offers   map[string]*offer
	used     map[string]time.Time           // codes that have signed in a browser, until they expire
	sessions map[[sha256.Size]byte]*Session // by the digest of the cookie
}

// offer is a code that a person has typed.
type offer struct {
	ends    time.Time
	seen    chan struct{} // closed once a browser has reported that it shows the code
	browser *Browser
	// confirmed: the browser is signed in at its next request. Then came is closed.
	confirmed bool
	role      string
	lifetime  time.Duration
	came      chan struct{}
	session   *Session
	err       error
}

// New returns a Desk. now returns the time; nil: time.Now.
func New(now func() time.Time) *Desk {
	d := &Desk{now: now, offers: map[string]*offer{}, used: map[string]time.Time{}, sessions: map[[sha256.Size]byte]*Session{}}
	if d.now == nil {
		d.now = time.Now
	}
	_, _ = rand.Read(d.key[:]) // never fails
	return d
}

// Begin returns the secrets of a browser that wants to sign in, and the code that it shows until expires.
func (d *Desk) Begin() (s Secrets, code string, expires time.Time) {
	expires = d.now().Add(CodeLifetime).Truncate(time.Second)
	page := binary.BigEndian.AppendUint64(nil, uint64(expires.Unix()))
	s = Secrets{Cookie: random(), Page: base64.RawURLEncoding.EncodeToString(append(page, randomBytes()...))}
	return s, d.code(s), expires
}

// fresh reports whether secrets have the form of Begin's, and have not expired.
func (d *Desk) fresh(s Secrets) bool {
	page, err := base64.RawURLEncoding.DecodeString(s.Page)
	return err == nil && len(page) == 8+secretBytes && s.Cookie != "" && d.now().Before(time.Unix(int64(binary.BigEndian.Uint64(page)), 0))
}

// Elsewhere returns the texts that identify a browser with secrets of Begin while it signs in at an OpenID Connect
// provider. They can only be computed with both secrets and this desk's key. ok is false if the secrets are invalid or
// expired.
func (d *Desk) Elsewhere(s Secrets) (state, nonce, verifier string, ok bool) {
	text := func(what string) string { return base64.RawURLEncoding.EncodeToString(d.mac(what, s)) }
	return text("state"), text("nonce"), text("verifier"), d.fresh(s)
}

// mac returns a MAC of a browser's secrets, for a purpose.
func (d *Desk) mac(what string, s Secrets) []byte {
	mac := hmac.New(sha256.New, d.key[:])
	_, _ = mac.Write([]byte(what + "\x00" + s.Cookie + "\x00" + s.Page))
	return mac.Sum(nil)
}

// code returns the code of a browser.
func (d *Desk) code(s Secrets) string {
	n := binary.BigEndian.Uint64(d.mac("code", s))
	var b strings.Builder
	for i := range codeLetters {
		if i == codeLetters/2 {
			b.WriteByte('-')
		}
		b.WriteByte(letters[n%uint64(len(letters))])
		n /= uint64(len(letters))
	}
	return b.String()
}

// Plain returns a code in the form for comparison: people type other cases, spaces and dashes.
func Plain(code string) string {
	code = strings.Map(func(c rune) rune {
		if strings.ContainsRune(letters, c) {
			return c
		}
		return -1
	}, strings.ToLower(code))
	if len(code) != codeLetters {
		return ""
	}
	return code[:codeLetters/2] + "-" + code[codeLetters/2:]
}

// Claim signs in a browser whose code was confirmed. A nil Session without an error: not confirmed yet. ErrStale: the
// browser's code has expired, or has been used.
//
// check returns why the browser must not be signed in; nil: it may. It is called once a person has typed the code. Its
// error is returned, shown to the person, and the browser is rejected.
func (d *Desk) Claim(s Secrets, from Browser, check func() error) (got *Session, secrets Secrets, err error) {
	if !d.fresh(s) {
		return nil, Secrets{}, ErrStale
	}
	code := d.code(s)
	if !d.offered(code) {
		return d.claim(code, from)
	}
	if err := check(); err != nil {
		d.keepOut(code, err)
		return nil, Secrets{}, err
	}
	return d.claim(code, from)
}

// offered reports whether a person has typed a code.
func (d *Desk) offered(code string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.offers[code] != nil
}

// keepOut ends the confirmation of a code with an error.
func (d *Desk) keepOut(code string, why error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.offers[code]
	if o == nil || o.err != nil {
		return
	}
	delete(d.offers, code)
	o.err = why
	if o.browser == nil {
		close(o.seen)
	}
	close(o.came)
}

func (d *Desk) claim(code string, from Browser) (got *Session, secrets Secrets, err error) {
	now := d.now()
	d.mu.Lock()
	defer d.mu.Unlock()
	o := d.offers[code]
	switch {
	case !d.used[code].IsZero():
		return nil, Secrets{}, ErrStale
	case o == nil || !now.Before(o.ends):
		return nil, Secrets{}, nil
	case o.browser == nil:
		o.browser = &from
		close(o.seen)
		return nil, Secrets{}, nil
	case !o.confirmed:
		return nil, Secrets{}, nil
	}
	delete(d.offers, code)
	d.used[code] = now.Add(CodeLifetime)
	defer close(o.came)
	o.session, secrets, o.err = d.add(&Session{Role: o.role, How: "code", Expires: now.Add(o.lifetime), Browser: from, stands: func() bool { return true }})
	return o.session, secrets, o.err
}

// SignIn signs in a browser that has authenticated with a token or at a provider.
func (d *Desk) SignIn(who auth.Who, from Browser) (*Session, Secrets, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.add(&Session{Role: who.Role, How: who.ID, Name: who.Name, Expires: d.now().Add(DefaultLifetime), Browser: from, stands: who.Stands})
}

// add adds a session. The lock is held.
func (d *Desk) add(s *Session) (*Session, Secrets, error) {
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
func (d *Desk) sweep() {
	now := d.now()
	for key, s := range d.sessions {
		if !now.Before(s.Expires) || !s.stands() {
			delete(d.sessions, key)
		}
	}
	for code, until := range d.used {
		if !now.Before(until) {
			delete(d.used, code)
		}
	}
	for code, o := range d.offers {
		if !now.Before(o.ends) {
			delete(d.offers, code)
		}
	}
}

// Find returns the identity of a signed-in browser.
func (d *Desk) Find(s Secrets) (auth.Who, Session, bool) {
	key, page := sha256.Sum256([]byte(s.Cookie)), sha256.Sum256([]byte(s.Page))
	stands := func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.standing(key) != nil
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.standing(key)
	if found == nil || subtle.ConstantTimeCompare(found.page[:], page[:]) != 1 {
		return auth.Who{}, Session{}, false
	}
	return auth.Who{ID: "console " + found.ID, Name: found.Name, Role: found.Role, Stands: stands}, *found, true
}

// standing returns the valid session of a cookie. The lock is held.
func (d *Desk) standing(key [sha256.Size]byte) *Session {
	s := d.sessions[key]
	if s == nil || !d.now().Before(s.Expires) || !s.stands() {
		return nil
	}
	return s
}

// Look waits until a browser reports that it shows a code, and returns the browser. It returns ErrNoBrowser if none
// does.
func (d *Desk) Look(ctx context.Context, code string) (Browser, error) {
	if code = Plain(code); code == "" { // no browser can show it
		return Browser{}, ErrNoBrowser
	}
	d.mu.Lock()
	d.sweep()
	if !d.used[code].IsZero() {
		d.mu.Unlock()
		return Browser{}, ErrUsed
	}
	o := d.offers[code]
	if o == nil {
		if len(d.offers) >= maxOffers {
			d.mu.Unlock()
			return Browser{}, ErrOffers
		}
		o = &offer{ends: d.now().Add(offerLifetime), seen: make(chan struct{}), came: make(chan struct{})}
		d.offers[code] = o
	}
	d.mu.Unlock()
	if !wait(ctx, o.seen) {
		d.mu.Lock()
		defer d.mu.Unlock()
		if o.browser == nil {
			if d.offers[code] == o {
				delete(d.offers, code)
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
	ctx, cancel := context.WithTimeout(ctx, lookFor)
	defer cancel()
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// Confirm confirms a code, for which Look has found a browser, and waits until the browser is signed in.
func (d *Desk) Confirm(ctx context.Context, code, role string, lifetime time.Duration) (Session, error) {
	switch {
	case !slices.Contains(tokens.Roles(), role):
		return Session{}, ErrRole
	case lifetime < time.Second || lifetime > MaxLifetime:
		return Session{}, ErrLifetime
	}
	code = Plain(code)
	d.mu.Lock()
	d.sweep()
	o := d.offers[code]
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
	came := wait(ctx, o.came)
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case o.err != nil:
		return Session{}, o.err
	case !came && o.session == nil:
		delete(d.offers, code)
		return Session{}, ErrNoBrowser
	}
	return *o.session, nil
}

// Sessions returns the signed-in browsers, oldest first.
func (d *Desk) Sessions() []Session {
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
func (d *Desk) End(id string) bool {
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
	b := make([]byte, secretBytes)
	_, _ = rand.Read(b) // never fails
	return b
}
