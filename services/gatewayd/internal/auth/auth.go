// Package auth authenticates requests, and rejects those that are not permitted for any caller: without a valid token
// or certificate, for another host (DNS rebinding), or from a page that is not allowed.
//
// It knows tokens, certificates, and the headers that carry them. It must not know what a role may do, nor how a
// provider's tokens are verified.
package auth

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/tokens"
)

// Caller is the caller of a request.
type Caller struct {
	// ID is unique: it is that of a token, or the digest of a certificate or of a provider's user.
	ID string
	// Name is the caller's name for people. It may be empty or ambiguous.
	Name string
	// Role is one of tokens.Roles.
	Role string
	// Valid reports whether the token or certificate is still valid.
	Valid func() bool
}

// HasRole reports whether the caller's role includes another one: a higher role includes all lower ones.
func (w Caller) HasRole(need string) bool {
	all := tokens.Roles()
	has := slices.Index(all, w.Role)
	return has >= 0 && has >= slices.Index(all, need)
}

type callerKey struct{}

// With returns a context with the caller of a request.
func With(ctx context.Context, caller Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, caller)
}

// From returns the caller of a context. The zero Caller has no permissions.
func From(ctx context.Context) Caller {
	caller, _ := ctx.Value(callerKey{}).(Caller)
	return caller
}

// Rejection is the reason why a request is rejected.
type Rejection struct {
	// Status is the HTTP status.
	Status int
	Text   string
}

func (r *Rejection) Error() string { return r.Text }

// Options configure a Gate.
type Options struct {
	// Tokens is the file of tokens; "": none.
	Tokens string
	// Hosts are the names and addresses of this server for clients, without ports.
	Hosts []string
	// Origins are the pages, "https://example.org", whose scripts may call. Scripts of other pages may not, even with a
	// token.
	Origins []string
	// JWT returns the owner of a token for which IsJWT is true; nil: such tokens are rejected. All other tokens are
	// those of the file.
	IsJWT func(token string) bool
	JWT   func(ctx context.Context, token string) (Caller, *Rejection)
	// Browser returns the caller of a request of the console's page; nil: there is no console. Such a request has
	// PageHeader.
	Browser func(*http.Request) (Caller, *Rejection)
	Logger  *slog.Logger
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

// Gate checks requests. Safe for concurrent use.
type Gate struct {
	opts  Options
	hosts map[string]bool

	mu          sync.Mutex // guards the fields below
	seen        fs.FileInfo
	known       tokens.Set
	lastProblem string // the last problem that was logged
}

// New returns a Gate.
func New(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gate{opts: o, hosts: map[string]bool{}}
	for _, h := range o.Hosts {
		g.hosts[normalizeHost(h)] = true
	}
	g.tokens() // log a problem of the file at the start, not at the first rejected caller
	return g
}

// normalizeHost returns a host's name in the form for comparison.
func normalizeHost(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// PageHeader is the header in which the console's page sends its secret. Other pages cannot send it: browsers first
// send a preflight request, which is rejected.
const PageHeader = "Acphost-Console"

// Host rejects a request for another host name: a page elsewhere may resolve its name to this server (DNS rebinding).
func (g *Gate) Host(r *http.Request) *Rejection {
	if !g.hosts[hostOf(r.Host)] {
		return &Rejection{http.StatusMisdirectedRequest, "this server does not have that name: add it with --host if it does"}
	}
	return nil
}

// Page rejects a request that is not from a page of this server, according to the browser's headers. Requests of other
// pages carry cookies, too (CSRF).
func (g *Gate) Page(r *http.Request) *Rejection {
	if rejection := g.Host(r); rejection != nil {
		return rejection
	}
	origins := r.Header.Values("Origin")
	own := len(origins) == 1 && origins[0] == "https://"+r.Host
	if r.TLS == nil { // behind a proxy with TLS it is https too
		own = own || len(origins) == 1 && origins[0] == "http://"+r.Host
	}
	for _, site := range r.Header.Values("Sec-Fetch-Site") {
		own = own && site == "same-origin"
	}
	if !own {
		return &Rejection{http.StatusForbidden, "only the console's page may send this request"}
	}
	return nil
}

// Check returns the caller of a request, or why it is rejected.
func (g *Gate) Check(r *http.Request) (Caller, *Rejection) {
	if rejection := g.Host(r); rejection != nil {
		return Caller{}, rejection
	}
	if g.opts.Browser != nil && len(r.Header.Values(PageHeader)) > 0 {
		if rejection := g.Page(r); rejection != nil {
			return Caller{}, rejection
		}
		return g.opts.Browser(r)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(g.opts.Origins, origin) {
			return Caller{}, &Rejection{http.StatusForbidden, "pages of this origin may not call: allow it by --origin if they may"}
		}
	}
	switch sent := r.Header.Values("Authorization"); {
	case len(sent) > 1:
		return Caller{}, &Rejection{http.StatusUnauthorized, "there is more than one Authorization header"}
	case len(sent) == 1:
		return g.byToken(r.Context(), sent[0])
	}
	return g.byCertificate(r)
}

// hostOf returns the name in a Host header, without the port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return normalizeHost(host)
	}
	return normalizeHost(header)
}

// Token returns the owner of a token.
func (g *Gate) Token(ctx context.Context, secret string) (Caller, *Rejection) {
	return g.byToken(ctx, "Bearer "+secret)
}

func (g *Gate) byToken(ctx context.Context, header string) (Caller, *Rejection) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Caller{}, &Rejection{http.StatusUnauthorized, `the Authorization header takes "Bearer TOKEN"`}
	}
	secret = strings.TrimSpace(secret)
	if g.opts.JWT != nil && g.opts.IsJWT(secret) {
		return g.opts.JWT(ctx, secret)
	}
	if g.opts.Tokens == "" {
		return Caller{}, &Rejection{http.StatusUnauthorized, "this gateway accepts no token of \"acphost tokens create\", since it was started without a file of tokens: " +
			"start gatewayd with --tokens FILE"}
	}
	t, ok := g.tokens().Find(secret, g.opts.Now())
	if !ok {
		return Caller{}, &Rejection{http.StatusUnauthorized, "the token is not known, or has expired: \"acphost tokens create\" makes one"}
	}
	return Caller{ID: "token " + t.ID, Name: t.Name, Role: t.Role, Valid: func() bool { return g.isValid(t) }}, nil
}

// isValid reports whether a token is still in the file and has not expired.
func (g *Gate) isValid(t tokens.Token) bool {
	now := g.opts.Now()
	return slices.ContainsFunc(g.tokens(), func(other tokens.Token) bool {
		return other.ID == t.ID && other.Hash == t.Hash && other.Role == t.Role && now.Before(other.Expires)
	})
}

func (g *Gate) byCertificate(r *http.Request) (Caller, *Rejection) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Caller{}, &Rejection{http.StatusUnauthorized, "say who you are: by \"Authorization: Bearer TOKEN\", or by a certificate"}
	}
	cert := r.TLS.PeerCertificates[0]
	role, err := roleOf(cert)
	if err != nil {
		return Caller{}, &Rejection{http.StatusForbidden, err.Error()}
	}
	digest := sha256.Sum256(cert.Raw)
	isValid := func() bool { return g.opts.Now().Before(cert.NotAfter) }
	if !isValid() {
		return Caller{}, &Rejection{http.StatusUnauthorized, "the certificate has expired"}
	}
	return Caller{ID: "certificate " + hex.EncodeToString(digest[:8]), Name: cert.Subject.CommonName, Role: role, Valid: isValid}, nil
}

// roleOf returns the one role of a certificate.
func roleOf(cert *x509.Certificate) (string, error) {
	if err := keyfiles.CheckClient(cert); err != nil {
		return "", err
	}
	role := ""
	for _, u := range cert.URIs {
		name, ok := keyfiles.RoleIn(u)
		switch {
		case !ok:
		case role != "":
			return "", errors.New("the certificate contains more than one role")
		case !slices.Contains(tokens.Roles(), name):
			return "", fmt.Errorf("the certificate's role, %q, is not a client's role", name)
		default:
			role = name
		}
	}
	if role == "" {
		return "", errors.New("the certificate contains no role")
	}
	return role, nil
}

// tokens returns the present tokens of the file. If the file is invalid, there are none.
func (g *Gate) tokens() tokens.Set {
	if g.opts.Tokens == "" {
		return nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	info, err := os.Stat(g.opts.Tokens)
	if err == nil && g.seen != nil && unchanged(info, g.seen) {
		return g.known
	}
	var known tokens.Set
	if err == nil {
		known, err = tokens.Read(g.opts.Tokens)
	}
	g.seen, g.known = info, known
	problem := ""
	if err != nil {
		problem, g.seen, g.known = err.Error(), nil, nil
	}
	if problem != g.lastProblem && problem != "" {
		g.opts.Logger.Error("there are no tokens: their file cannot be used", "error", problem)
	}
	g.lastProblem = problem
	return g.known
}

// unchanged reports whether a file is unchanged.
func unchanged(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() && os.SameFile(a, b)
}
