// Package auth says who a request is from, and refuses requests that nobody may make: of no token or certificate, for a host that
// is not this one (DNS rebinding), from a page that is not allowed to.
//
// It knows tokens, certificates, and the headers that carry them. It must not know what a role may do, nor how a
// provider's tokens are checked.
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

// Who is the one that a request is from.
type Who struct {
	// ID is nobody else's: that of a token, or the digest of a certificate or of whom a provider knows.
	ID string
	// Name is what people call them. It may be empty, and may be that of others too.
	Name string
	// Role is one of tokens.Roles.
	Role string
	// Stands reports whether the token or certificate is still good.
	Stands func() bool
}

// May reports whether a role may do what another one is needed for: a greater role may do all that a lesser one may.
func (w Who) May(need string) bool {
	all := tokens.Roles()
	has := slices.Index(all, w.Role)
	return has >= 0 && has >= slices.Index(all, need)
}

type whoKey struct{}

// With returns a context of a request that somebody made.
func With(ctx context.Context, who Who) context.Context { return context.WithValue(ctx, whoKey{}, who) }

// From returns who made the request of a context. The zero Who may do nothing.
func From(ctx context.Context) Who {
	who, _ := ctx.Value(whoKey{}).(Who)
	return who
}

// Refusal is why a request is refused.
type Refusal struct {
	// Status is that of HTTP.
	Status int
	Words  string
}

func (r *Refusal) Error() string { return r.Words }

// Options are what a Gate is made of.
type Options struct {
	// Tokens is the file of tokens; "": there are none.
	Tokens string
	// Hosts are the names and addresses by which clients reach this server, without ports.
	Hosts []string
	// Origins are the pages, "https://example.org", whose scripts may call. Others may not, whatever they know.
	Origins []string
	// JWT says whose a token is that IsJWT is true of; nil: it is of nobody. The other tokens are those of the file.
	IsJWT func(token string) bool
	JWT   func(ctx context.Context, token string) (Who, *Refusal)
	// Browser says who a request of the console's page is from; nil: there is no console. Such a request has PageHeader.
	Browser func(*http.Request) (Who, *Refusal)
	Logger  *slog.Logger
	// Now is the time. Default: time.Now.
	Now func() time.Time
}

// Gate checks requests. Safe for concurrent use.
type Gate struct {
	opts  Options
	hosts map[string]bool

	mu    sync.Mutex // guards what follows
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
	g.tokens() // what is wrong with the file is said at once, not when the first caller is refused
	return g
}

// plain is a host's name as names are compared.
func plain(host string) string {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
}

// PageHeader is the header by which the console's page shows the secret that it keeps. A page elsewhere cannot send it: browsers
// first ask whether it may, and are told no.
const PageHeader = "Acphost-Console"

// Host refuses a request that is for another server than this one: a page elsewhere whose name was made to lead here (DNS
// rebinding).
func (g *Gate) Host(r *http.Request) *Refusal {
	if !g.hosts[hostOf(r.Host)] {
		return &Refusal{http.StatusMisdirectedRequest, "this server is not called that: name it by --host if it is"}
	}
	return nil
}

// Page refuses a request that is not from a page of this server itself, as a browser says it. Cookies come with requests of other
// pages, too (CSRF).
func (g *Gate) Page(r *http.Request) *Refusal {
	if refusal := g.Host(r); refusal != nil {
		return refusal
	}
	origins := r.Header.Values("Origin")
	own := len(origins) == 1 && origins[0] == "https://"+r.Host
	if r.TLS == nil { // before a proxy with TLS it is https too
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

// Check says who a request is from, or why it is refused.
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

// hostOf is the name of a Host header, without its port.
func hostOf(header string) string {
	if host, _, err := net.SplitHostPort(header); err == nil {
		return plain(host)
	}
	return plain(header)
}

// Token says whose token a text is.
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

// roleOf is the one role that a certificate says.
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

// tokens are those of the file as it is now. If it cannot be used, there are none.
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

// same reports whether a file is what it was.
func same(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && a.Mode() == b.Mode() && os.SameFile(a, b)
}
