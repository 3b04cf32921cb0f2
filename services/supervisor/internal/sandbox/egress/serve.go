package egress

import (
	"bufio"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"time"

	"github.com/acphost/acphost/internal/hosts"
	"github.com/acphost/acphost/internal/panics"
)

// serve answers one request.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	if !p.begin() {
		return
	}
	defer p.work.Done()
	if !p.admits(r.Header["Proxy-Authorization"]) {
		w.Header().Set("Proxy-Authenticate", `Basic realm="acphost"`)
		p.sendError(w, refuse(http.StatusProxyAuthRequired, "this proxy is for another process: use the proxy that HTTPS_PROXY names"))
		return
	}
	to, err := target(r)
	if err != nil {
		p.sendError(w, refuse(http.StatusBadRequest, "%s", err))
		return
	}
	if r.Method == http.MethodConnect && to.Port == dnsPort {
		p.serveNames(w)
		return
	}
	if to.Host, err = p.names.host(to.Host); err != nil {
		p.sendError(w, err)
		return
	}
	began := time.Now()
	conn, err := p.dial(r.Context(), to)
	if err != nil {
		p.Logger.Info("refused a connection of the agent", "to", to.String(), "reason", err.Error())
		p.sendError(w, err)
		return
	}
	defer p.track(conn)()
	p.Logger.Debug("connected the agent", "to", to.String(), "address", conn.RemoteAddr().String())
	defer func() {
		p.Logger.Debug("closed a connection of the agent", "to", to.String(), slog.Duration("after", time.Since(began)))
	}()
	if r.Method == http.MethodConnect {
		p.relay(w, conn)
		return
	}
	ctx := context.WithValue(r.Context(), connKey{}, &pinned{Conn: conn, idle: p.Idle})
	control := http.NewResponseController(w)
	if r.Body != nil && r.Body != http.NoBody {
		r.Body = &deadlineBody{r.Body, control, p.Idle}
	}
	p.forward.ServeHTTP(&deadlineWriter{w, control, p.Idle}, r.WithContext(ctx))
}

// admits reports whether the password is right. It compares in constant time.
func (p *Proxy) admits(given []string) bool {
	if len(given) != 1 {
		return false
	}
	scheme, encoded, _ := strings.Cut(given[0], " ")
	want := base64.StdEncoding.EncodeToString([]byte(user + ":" + p.secret))
	return strings.EqualFold(scheme, "Basic") && subtle.ConstantTimeCompare([]byte(strings.TrimSpace(encoded)), []byte(want)) == 1
}

// target parses the target of a request.
func target(r *http.Request) (Target, error) {
	if r.Method == http.MethodConnect {
		host, port, err := hosts.Split(r.RequestURI)
		if err != nil {
			return Target{}, fmt.Errorf("CONNECT takes HOST:PORT: %w", err)
		}
		return Target{Host: host, Port: port}, nil
	}
	switch {
	case r.URL.Host == "":
		return Target{}, errors.New("this is a proxy: it takes CONNECT HOST:PORT, and other requests for http://HOST/")
	case !strings.EqualFold(r.URL.Scheme, "http"):
		return Target{}, fmt.Errorf("this proxy takes requests for http URLs, and CONNECT for all others, not %.20q", r.URL.Scheme)
	case r.URL.User != nil:
		return Target{}, errors.New("the URL has a user in it: say who you are in a header")
	}
	if r.URL.Port() == "" && !strings.HasSuffix(r.URL.Host, ":") {
		host, err := hosts.Parse(r.URL.Host)
		if err != nil {
			return Target{}, fmt.Errorf("the host of the URL: %w", err)
		}
		return Target{Host: host, Port: 80}, nil
	}
	host, port, err := hosts.Split(r.URL.Host)
	if err != nil {
		return Target{}, fmt.Errorf("the host of the URL: %w", err)
	}
	return Target{Host: host, Port: port}, nil
}

// sendError responds with an error. Many clients show only the status line, so it contains the text, too.
func (p *Proxy) sendError(w http.ResponseWriter, err error) {
	r := refuse(http.StatusBadGateway, "%s", err)
	_ = errors.As(err, &r)
	text := "acphost: " + printable(r.text)
	w.Header().Set("Connection", "close")
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, text, r.status)
		return
	}
	defer p.track(conn)()
	authenticate := ""
	if value := w.Header().Get("Proxy-Authenticate"); value != "" {
		authenticate = "Proxy-Authenticate: " + value + "\r\n"
	}
	_ = conn.SetDeadline(time.Now().Add(p.HeaderTimeout))
	_, _ = fmt.Fprintf(conn, "HTTP/1.1 %d %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\nX-Content-Type-Options: nosniff\r\n%sConnection: close\r\n\r\n%s\n",
		r.status, text, len(text)+1, authenticate, text)
	// Read the remaining data of the client for a while: closing a connection with unread data resets it, and the
	// response would be lost.
	if half, ok := conn.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_ = conn.SetDeadline(time.Now().Add(time.Second))
		_, _ = io.CopyN(io.Discard, conn, 1<<20)
	}
}

// maxText limits a text for the agent, in bytes.
const maxText = 400

// printable replaces characters that are not allowed in a status line: all but printable ASCII.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, text)
	return text[:min(len(text), maxText)]
}

// relay connects the client's connection with the server's.
func (p *Proxy) relay(w http.ResponseWriter, server net.Conn) {
	client, buffered, err := openTunnel(w, p.Idle)
	if err != nil {
		return
	}
	defer p.track(client)()
	// Data in either direction keeps both directions alive: a client that sends a large file receives nothing for a
	// long time.
	alive := func() {
		at := time.Now().Add(p.Idle)
		_ = client.SetDeadline(at)
		_ = server.SetDeadline(at)
	}
	alive()
	var both sync.WaitGroup
	copied := func(to net.Conn, from io.Reader) {
		if !pump(to, from, alive) {
			_ = client.Close()
			_ = server.Close()
		}
	}
	end := func(error) {
		_ = client.Close()
		_ = server.Close()
	}
	both.Go(panics.Guard(p.Logger, "passing on what an agent sends", func() { copied(server, sent(buffered.Reader, client)) }, end))
	both.Go(panics.Guard(p.Logger, "passing on what an agent receives", func() { copied(client, server) }, end))
	both.Wait()
}

// openTunnel hijacks the client's connection, and confirms the tunnel. The caller closes the connection.
func openTunnel(w http.ResponseWriter, idle time.Duration) (net.Conn, *bufio.ReadWriter, error) {
	client, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	_ = client.SetDeadline(time.Now().Add(idle))
	if _, err := io.WriteString(client, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		_ = client.Close()
		return nil, nil, err
	}
	return client, buffered, nil
}

// sent returns the data of the client: the bytes that the HTTP server has buffered, and then the connection.
func sent(buffered *bufio.Reader, conn net.Conn) io.Reader {
	already, _ := buffered.Peek(buffered.Buffered())
	return io.MultiReader(strings.NewReader(string(already)), conn)
}

// pump copies one direction of a tunnel. At its end it closes the sending direction of to, so that the other direction
// can continue. It returns false if that is impossible and the other direction must be closed.
func pump(to net.Conn, from io.Reader, alive func()) bool {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 {
			alive()
			if _, errWrite := to.Write(buffer[:n]); errWrite != nil {
				return false
			}
			alive()
		}
		if errors.Is(err, io.EOF) {
			half, ok := to.(interface{ CloseWrite() error })
			return ok && half.CloseWrite() == nil
		}
		if err != nil {
			return false
		}
	}
}

// connKey is the context key of the connection for a request with a URL.
type connKey struct{}

// forwarder sends a request with a URL over the connection that was made for it. A connection is not reused, because
// the next request may be for another machine.
func (p *Proxy) forwarder() http.Handler {
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.Out.Host = r.In.URL.Host // the Host header of the request was not decided on
			r.Out.Close = true
		},
		Transport: &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				if conn, ok := ctx.Value(connKey{}).(*pinned); ok && !conn.taken {
					conn.taken = true
					return conn, nil
				}
				return nil, errors.New("the connection is closed")
			},
			DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: 1 << 20,
		},
		FlushInterval: -1,
		ErrorLog:      slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo),
		ErrorHandler: func(w http.ResponseWriter, r *http.Request, err error) {
			http.Error(w, "acphost: "+printable(r.URL.Host+" did not answer: "+causeOf(err)), http.StatusBadGateway)
		},
	}
}

// pinned is a connection to a checked address. It is closed when it is idle.
type pinned struct {
	net.Conn
	idle  time.Duration
	taken bool
}

func (c *pinned) Read(b []byte) (int, error) {
	_ = c.SetReadDeadline(time.Now().Add(c.idle))
	return c.Conn.Read(b)
}

func (c *pinned) Write(b []byte) (int, error) {
	_ = c.SetWriteDeadline(time.Now().Add(c.idle))
	return c.Conn.Write(b)
}

// deadlineBody and deadlineWriter set a new deadline for the client before each call.
type deadlineBody struct {
	io.ReadCloser
	control *http.ResponseController
	idle    time.Duration
}

func (b *deadlineBody) Read(data []byte) (int, error) {
	_ = b.control.SetReadDeadline(time.Now().Add(b.idle))
	return b.ReadCloser.Read(data)
}

type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	idle    time.Duration
}

func (w *deadlineWriter) Write(data []byte) (int, error) {
	_ = w.control.SetWriteDeadline(time.Now().Add(w.idle))
	return w.ResponseWriter.Write(data)
}

// Unwrap is used by http.ResponseController.
func (w *deadlineWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
