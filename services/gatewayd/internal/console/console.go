// Package console serves the console: its page, and the requests by which a browser signs in and out.
//
// It knows HTTP, cookies and the headers that keep other pages out. The page gets its data from the supervisor's
// services like any client; this package must not know them.
package console

import (
	"bytes"
	"compress/gzip"
	"crypto/subtle"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path"
	"strings"
	"time"

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/services/gatewayd/internal/auth"
	"github.com/acphost/acphost/services/gatewayd/internal/oidc"
	"github.com/acphost/acphost/services/gatewayd/internal/signin"
)

//go:generate make -C ../../../.. console

//go:embed dist
var dist embed.FS

// policy is the page's content security policy: it may use only this server's scripts, styles and connections. Text
// never becomes code or elements (Trusted Types, without any policy that could create some). Terminals and other
// elements set styles by the CSSOM, which needs no exception.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'"

const (
	// maxBody bounds a request to sign in, in bytes.
	maxBody = 4 << 10
	// maxAgent bounds a browser's User-Agent, in bytes.
	maxAgent = 300
)

// Options configure a Handler.
type Options struct {
	Gate   *auth.Gate
	Broker *signin.Broker
	// Provider also signs people in; nil: none.
	Provider *oidc.Provider
	Logger   *slog.Logger
}

// handler serves the console.
type handler struct {
	Options
	files map[string]file
}

// file is one of the page's files.
type file struct {
	kind           string
	plain, smaller []byte
}

// New returns the console's handler for paths below /console/. Safe for concurrent use.
func New(o Options) http.Handler {
	h := &handler{Options: o, files: load()}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /console", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/console/", http.StatusPermanentRedirect)
	})
	mux.HandleFunc("GET /console/", h.page)
	mux.HandleFunc("POST /console/api/begin", h.beginSignIn)
	mux.HandleFunc("POST /console/api/claim", h.claim)
	mux.HandleFunc("POST /console/api/token", h.token)
	mux.HandleFunc("POST /console/api/who", h.currentSession)
	if h.Provider != nil {
		mux.HandleFunc("POST /console/api/oidc/begin", h.redirectToProvider)
		mux.HandleFunc("POST /console/api/oidc/finish", h.handleCallback)
	}
	mux.HandleFunc("POST /console/api/out", h.signOut)
	return h.guarded(mux)
}

// load reads the embedded files, and minifies them.
func load() map[string]file {
	files := map[string]file{}
	_ = fs.WalkDir(dist, "dist", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		plain, err := dist.ReadFile(name)
		if err != nil {
			return err
		}
		var smaller bytes.Buffer
		zip, _ := gzip.NewWriterLevel(&smaller, gzip.BestCompression)
		_, _ = zip.Write(plain)
		_ = zip.Close()
		kind := mime.TypeByExtension(path.Ext(name))
		switch path.Ext(name) { // independent of the system's MIME tables
		case ".js":
			kind = "text/javascript; charset=utf-8"
		case ".css":
			kind = "text/css; charset=utf-8"
		case ".html":
			kind = "text/html; charset=utf-8"
		case ".txt":
			kind = "text/plain; charset=utf-8"
		case ".svg":
			kind = "image/svg+xml"
		}
		files[strings.TrimPrefix(name, "dist/")] = file{kind, plain, smaller.Bytes()}
		return nil
	})
	return files
}

// guarded rejects requests for other hosts, and requests for other resources than files that are not from the console's
// page.
func (h *handler) guarded(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Frame-Options", "DENY")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Opener-Policy", "same-origin")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
		if r.TLS != nil {
			header.Set("Strict-Transport-Security", "max-age=31536000")
		}
		rejection := h.Gate.Host(r)
		if rejection == nil && r.Method == http.MethodPost {
			if rejection = h.Gate.Page(r); rejection == nil {
				rejection = isJSON(r)
			}
		}
		if rejection != nil {
			h.Logger.Info("refused a request to the console", "from", r.RemoteAddr, "status", rejection.Status, "why", rejection.Text)
			http.Error(w, rejection.Text, rejection.Status)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isJSON rejects a body of another type, such as that of a form on another page.
func isJSON(r *http.Request) *auth.Rejection {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
		return &auth.Rejection{Status: http.StatusUnsupportedMediaType, Text: "it takes application/json"}
	}
	return nil
}

func (h *handler) page(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(r.URL.Path, "/console/")
	if name == "" || name == "oidc/callback" { // the page itself handles the provider's answer, and sends its secret with it
		name = "index.html"
	}
	f, ok := h.files[name]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Vary", "Accept-Encoding")
	body := f.plain
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = f.smaller
	}
	_, _ = w.Write(body)
}

// message is the body of requests and answers between the page and this package.
type message struct {
	// State is "waiting", "stale" (the code has expired), "in" or "out".
	State string `json:"state,omitempty"`
	Code  string `json:"code,omitempty"`
	// Secret is the page's secret.
	Secret  string     `json:"secret,omitempty"`
	Token   string     `json:"token,omitempty"`
	ID      string     `json:"id,omitempty"`
	Role    string     `json:"role,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	// Provider is the name of a provider for sign-in, URL its sign-in page, and Echo the parameters that it returned.
	Provider string `json:"provider,omitempty"`
	URL      string `json:"url,omitempty"`
	Echo     string `json:"echo,omitempty"`
}

func (h *handler) beginSignIn(w http.ResponseWriter, r *http.Request) {
	s, code, expires := h.Broker.Begin()
	h.setCookie(w, r, signingIn, s.Cookie, signin.CodeLifetime)
	answer := message{State: "waiting", Code: code, Secret: s.Page, Expires: &expires}
	if h.Provider != nil {
		answer.Provider = h.Provider.Name()
	}
	writeJSON(w, answer)
}

// redirectToProvider returns the provider's sign-in page for a browser.
func (h *handler) redirectToProvider(w http.ResponseWriter, r *http.Request) {
	s, _, expires := h.Broker.Begin()
	state, nonce, verifier, _ := h.Broker.ProviderParams(s)
	url, rejection := h.Provider.SignInURL(state, nonce, verifier)
	if rejection != nil {
		http.Error(w, rejection.Text, rejection.Status)
		return
	}
	h.setCookie(w, r, signingInElsewhere, s.Cookie, signin.CodeLifetime)
	writeJSON(w, message{State: "waiting", Secret: s.Page, URL: url, Expires: &expires})
}

// handleCallback signs in a browser that has signed in at the provider. Both of its secrets prove that it began the
// sign-in: otherwise an attacker could sign it in as another person.
func (h *handler) handleCallback(w http.ResponseWriter, r *http.Request) {
	got, ok := readJSON(w, r)
	if !ok {
		return
	}
	state, nonce, verifier, ok := h.Broker.ProviderParams(signin.Secrets{Cookie: cookie(r, signingInElsewhere), Page: got.Secret})
	if !ok || subtle.ConstantTimeCompare([]byte(state), []byte(got.Echo)) != 1 || got.Code == "" {
		http.Error(w, "this sign-in was not begun by this page, or took more than 5 minutes: begin again at /console/", http.StatusForbidden)
		return
	}
	h.setCookie(w, r, signingInElsewhere, "", -time.Second)
	caller, rejection := h.Provider.SignedIn(r.Context(), got.Code, nonce, verifier)
	if rejection != nil {
		http.Error(w, rejection.Text, rejection.Status)
		return
	}
	h.signIn(w, r, caller)
}

func (h *handler) claim(w http.ResponseWriter, r *http.Request) {
	got, ok := readJSON(w, r)
	if !ok {
		return
	}
	session, secrets, err := h.Broker.Claim(signin.Secrets{Cookie: cookie(r, signingIn), Page: got.Secret}, browserOf(r), func() error { return rejectAgent(r) })
	switch {
	case errors.Is(err, errAgentBrowser):
		h.Logger.Warn("refused a browser at the console", "from", r.RemoteAddr, "error", err)
		http.Error(w, err.Error(), http.StatusForbidden)
	case err != nil:
		writeJSON(w, message{State: "stale"})
	case session == nil:
		writeJSON(w, message{State: "waiting"})
	default:
		h.setCookie(w, r, signingIn, "", -time.Second)
		h.writeSession(w, r, session, secrets)
	}
}

func (h *handler) token(w http.ResponseWriter, r *http.Request) {
	got, ok := readJSON(w, r)
	if !ok {
		return
	}
	caller, rejection := h.Gate.Token(r.Context(), strings.TrimSpace(got.Token))
	if rejection != nil {
		h.Logger.Warn("refused a token at the console", "from", r.RemoteAddr)
		http.Error(w, rejection.Text, rejection.Status)
		return
	}
	h.signIn(w, r, caller)
}

// signIn signs in a browser that is authenticated.
func (h *handler) signIn(w http.ResponseWriter, r *http.Request, caller auth.Caller) {
	session, secrets, err := h.Broker.SignIn(caller, browserOf(r))
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	h.writeSession(w, r, session, secrets)
}

// writeSession answers a browser that is signed in.
func (h *handler) writeSession(w http.ResponseWriter, r *http.Request, s *signin.Session, secrets signin.Secrets) {
	h.Logger.Info("a browser signed in", "session", s.ID, "role", s.Role, "how", s.Method, "from", s.Browser.Address)
	h.setCookie(w, r, signedIn, secrets.Cookie, time.Until(s.Expires))
	writeJSON(w, message{State: "in", Secret: secrets.Page, ID: s.ID, Role: s.Role, Expires: &s.Expires})
}

func (h *handler) currentSession(w http.ResponseWriter, r *http.Request) {
	_, s, ok := h.Broker.Find(SecretsOf(r))
	if !ok {
		writeJSON(w, message{State: "out"})
		return
	}
	writeJSON(w, message{State: "in", ID: s.ID, Role: s.Role, Expires: &s.Expires})
}

func (h *handler) signOut(w http.ResponseWriter, r *http.Request) {
	if _, s, ok := h.Broker.Find(SecretsOf(r)); ok && h.Broker.End(s.ID) {
		h.Logger.Info("a browser signed out", "session", s.ID)
		h.setCookie(w, r, signedIn, "", -time.Second)
	}
	writeJSON(w, message{State: "out"})
}

// The base names of the cookies. cookieName adds the port.
const (
	signingIn          = "acphost-signing-in"
	signingInElsewhere = "acphost-signing-in-oidc"
	signedIn           = "acphost-console"
)

// cookieName returns a cookie's name. Browsers share cookies among all ports of a host, so the name contains the port.
// They accept a cookie with the prefix __Host- only from this host, and over TLS.
func cookieName(r *http.Request, name string) string {
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if secure(r) {
		return "__Host-" + name
	}
	return name
}

// secure reports whether the browser uses TLS, to this server or to a proxy in front of it.
func secure(r *http.Request) bool {
	return r.TLS != nil || strings.HasPrefix(r.Header.Get("Origin"), "https://")
}

func (h *handler) setCookie(w http.ResponseWriter, r *http.Request, name, value string, lifetime time.Duration) {
	http.SetCookie(w, &http.Cookie{ // #nosec G124 -- it is Secure wherever the browser speaks TLS
		Name: cookieName(r, name), Value: value, Path: "/", MaxAge: int(lifetime / time.Second),
		HttpOnly: true, Secure: secure(r), SameSite: http.SameSiteStrictMode,
	})
}

// cookie returns a cookie of a request; "" if none exists, or more than one, of which another server has set one.
func cookie(r *http.Request, name string) string {
	all := r.CookiesNamed(cookieName(r, name))
	if len(all) != 1 {
		return ""
	}
	return all[0].Value
}

// SecretsOf returns the sign-in secrets of a request.
func SecretsOf(r *http.Request) signin.Secrets {
	s := signin.Secrets{Cookie: cookie(r, signedIn)}
	if pages := r.Header.Values(auth.PageHeader); len(pages) == 1 {
		s.Page = pages[0]
	}
	return s
}

// Browser returns an auth.Options.Browser: it identifies the person that a browser is signed in as at a Broker.
func Browser(broker *signin.Broker) func(*http.Request) (auth.Caller, *auth.Rejection) {
	return func(r *http.Request) (auth.Caller, *auth.Rejection) {
		if caller, _, ok := broker.Find(SecretsOf(r)); ok {
			return caller, nil
		}
		return auth.Caller{}, &auth.Rejection{Status: http.StatusUnauthorized, Text: "this browser is not signed in, or its session has ended: sign in at /console/"}
	}
}

// errAgentBrowser is wrapped in the error of a browser that belongs to an agent.
var errAgentBrowser = errors.New("this code is shown by a program of an agent, not by a person's browser")

// rejectAgent rejects a request from this machine if an agent, a handler, a supervisor or a descendant of these made
// it: an agent could show a code and have a person type it. For a caller behind a proxy or on another machine, this
// cannot be determined.
func rejectAgent(r *http.Request) error {
	local, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return nil // not a network connection
	}
	if _, tcp := local.(*net.TCPAddr); !tcp {
		return nil
	}
	to, toErr := netip.ParseAddrPort(local.String())
	from, fromErr := netip.ParseAddrPort(r.RemoteAddr)
	if err := errors.Join(toErr, fromErr); err != nil {
		return fmt.Errorf("%w, or this could not be verified: %w; sign in with a token", errAgentBrowser, err)
	}
	switch why, err := peer.NoPersonTCP(to, from, os.Getpid()); {
	case err != nil:
		return fmt.Errorf("%w, or this could not be verified: %w; sign in with a token", errAgentBrowser, err)
	case why != "":
		return fmt.Errorf("%w: %s", errAgentBrowser, why)
	}
	return nil
}

func browserOf(r *http.Request) signin.Browser {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	agent := r.UserAgent()
	return signin.Browser{Address: address, Agent: agent[:min(len(agent), maxAgent)]}
}

// readJSON parses the body of a page's request; false: it answered with an error.
func readJSON(w http.ResponseWriter, r *http.Request) (message, bool) {
	var s message
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&s)
	if long := (*http.MaxBytesError)(nil); errors.As(err, &long) {
		http.Error(w, "the request is too long", http.StatusRequestEntityTooLarge)
		return s, false
	}
	if err != nil {
		http.Error(w, "the request is no JSON object", http.StatusBadRequest)
		return s, false
	}
	return s, true
}

func writeJSON(w http.ResponseWriter, s message) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(s) // #nosec G117 -- the secret is the page's own, and is sent only to it
}
