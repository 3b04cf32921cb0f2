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

// Who is the caller of a request.
type Who struct {
	// ID is unique: it is that of a token, or the digest of a certificate or of a provider's user.
	ID string
	// Name is the caller's name for people. It may be empty or ambiguous.
	Name string
	// Role is one of tokens.Roles.
	Role string
	// Stands reports whether the token or certificate is still valid.
	Stands func() bool
}

// May reports whether the caller's role includes another one: a higher role includes all lower ones.
func (w Who) May(need string) bool {
	all := tokens.Roles()
	has := slices.Index(all, w.Role)
	return has >= 0 && has >= slices.Index(all, need)
}

type whoKey struct{}

// With returns a context with the caller of a request.
func With(ctx context.Context, who Who) context.Context { return context.WithValue(ctx, whoKey{}, who) }

// From returns the caller of a context. The zero Who may do nothing.
func From(ctx context.Context) Who {
	who, _ := ctx.Value(whoKey{}).(Who)
	return who
}

// Refusal is the reason why a request is rejected.
type Refusal struct {
	// Status is the HTTP status.
	Status int
	Words  string
}

func (r *Refusal) Error() string { return r.Words }

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
	JWT   func(ctx context.Context, token string) (Who, *Refusal)
	// Browser returns the caller of a request of the console's page; nil: there is no console. Such a request has
	// PageHeader.
	Browser func(*http.Request) (Who, *Refusal)
	Logger  *slog.Logger
	// Now returns the time. Default: time.Now.
	Now func() time.Time
}

// Gate checks requests. Safe for concurrent use.
type Gate struct {
	opts  Options
	hosts map[string]bool

	mu    sync.Mutex // guards the fields below
	seen  fs.FileInfo
	known tokens.Set
	said  string // the last problem that was logged
}

// New returns a Gate.
func New(o Options) *Gate {
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gate{opts: o, hosts: map[string]bool{}}
	for _, h := range o.Hosts {
		g.hosts[plain(h)] = true
	}
	g.tokens() // log a problem of the file at the start, not at the first rejected caller
	return g
}

// plain returns a host's name in the form for comparison.
func plain(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// PageHeader is the header in which the console's page sends its secret. Other pages cannot send it: browsers first
// send a preflight request, which is rejected.
const PageHeader = "Acphost-Console"

// Host rejects a request for another host name: a page elsewhere may resolve its name to this server (DNS rebinding).
func (g *Gate) Host(r *http.Request) *Refusal {
	if !g.hosts[hostOf(r.Host)] {
		return &Refusal{http.StatusMisdirectedRequest, "this server is not called that: name it by --host if it is"}
	}
	return nil
}

// Page rejects a request that is not from a page of this server, according to the browser's headers. Requests of other
// pages carry cookies, too (CSRF).
func (g *Gate) Page(r *http.Request) *Refusal {
	if refusal := g.Host(r); refusal != nil {
		return refusal
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
		return &Refusal{http.StatusForbidden, "only the console's own page may ask this"}
	}
	return nil
}

// Check returns the caller of a request, or why it is rejected.
func (g *Gate) Check(r *http.Request) (Who, *Refusal) {
	if refusal := g.Host(r); refusal != nil {
		return Who{}, refusal
	}
	if g.opts.Browser != nil && len(r.Header.Values(PageHeader)) > 0 {
		if refusal := g.Page(r); refusal != nil {
			return Who{}, refusal
		}
		return g.opts.Browser(r)
	}
	for _, origin := range r.Header.Values("Origin") {
		if !slices.Contains(g.opts.Origins, origin) {
			return Who{}, &Refusal{http.StatusForbidden, "pages of this origin may not call: allow it by --origin if they may"}
		}
	}
	switch sent := r.Header.Values("Authorization"); {
	case len(sent) > 1:
		return Who{}, &Refusal{http.StatusUnauthorized, "there is more than one Authorization header"}
	case len(sent) == 1:
		return g.byToken(r.Context(), sent[0])
	}
	return g.byCertificate(r)
}

// hostOf returns the name in a Host header, without the port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return plain(host)
	}
	return plain(header)
}

// Token returns the owner of a token.
func (g *Gate) Token(ctx context.Context, secret string) (Who, *Refusal) {
	return g.byToken(ctx, "Bearer "+secret)
}

func (g *Gate) byToken(ctx context.Context, header string) (Who, *Refusal) {
	scheme, secret, _ := strings.Cut(header, " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return Who{}, &Refusal{http.StatusUnauthorized, `the Authorization header takes "Bearer TOKEN"`}
	}
	secret = strings.TrimSpace(secret)
	if g.opts.JWT != nil && g.opts.IsJWT(secret) {
		return g.opts.JWT(ctx, secret)
	}
	if g.opts.Tokens == "" {
		return Who{}, &Refusal{http.StatusUnauthorized, "this gateway accepts no token of \"acphost tokens create\", since it was started without a file of tokens: " +
			"start gatewayd with --tokens FILE"}
	}
	t, ok := g.tokens().Find(secret, g.opts.Now())
	if !ok {
		return Who{}, &Refusal{http.StatusUnauthorized, "the token is not known, or has expired: \"acphost tokens create\" makes one"}
	}
	return Who{ID: "token " + t.ID, Name: t.Name, Role: t.Role, Stands: func() bool { return g.stands(t) }}, nil
}

// stands reports whether a token is still in the file and has not expired.
func (g *Gate) stands(t tokens.Token) bool {
	now := g.opts.Now()
	return slices.ContainsFunc(g.tokens(), func(other tokens.Token) bool {
		return other.ID == t.ID && other.Hash == t.Hash && other.Role == t.Role && now.Before(other.Expires)
	})
}

func (g *Gate) byCertificate(r *http.Request) (Who, *Refusal) {
	if r.TLS == nil || len(r.TLS.VerifiedChains) == 0 {
		return Who{}, &Refusal{http.StatusUnauthorized, "say who you are: by \"Authorization: Bearer TOKEN\", or by a certificate"}
	}
	cert := r.TLS.PeerCertificates[0]
	role, err := roleOf(cert)
	if err != nil {
		return Who{}, &Refusal{http.StatusForbidden, err.Error()}
	}
	digest := sha256.Sum256(cert.Raw)
	stands := func() bool { return g.opts.Now().Before(cert.NotAfter) }
	if !stands() {
		return Who{}, &Refusal{http.StatusUnauthorized, "the certificate has expired"}
	}
	return Who{ID: "certificate " + hex.EncodeToString(digest[:8]), Name: cert.Subject.CommonName, Role: role, Stands: stands}, nil
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
			return "", errors.New("the certificate says more than one role")
		case !slices.Contains(tokens.Roles(), name):
			return "", fmt.Errorf("the certificate's role, %q, is none of a client", name)
		default:
			role = name
		}
	}
	if role == "" {
		return "", errors.New("the certificate says no role")
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
	if err == nil && g.seen != nil && same(info, g.seen) {
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
	if problem != g.said && problem != "" {
		g.opts.Logger.Error("there are no tokens: their file cannot be used", "error", problem)
	}
	g.said = problem
	return g.known
}

// same reports whether a file is unchanged.
func same(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() && os.SameFile(a, b)
}
