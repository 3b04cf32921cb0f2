package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/net/http/httpproxy"
)

// UpstreamFromEnvironment returns an Options.Upstream that uses the variables HTTPS_PROXY, HTTP_PROXY and NO_PROXY of
// this process, in upper or lower case, for networks with a company proxy. It returns nil if no proxy is set, and
// ignores proxies of other types than HTTP.
func UpstreamFromEnvironment() func(Target) *url.URL {
	config := httpproxy.FromEnvironment()
	if config.HTTPSProxy == "" {
		config.HTTPSProxy = config.HTTPProxy
	}
	if config.HTTPSProxy == "" {
		return nil
	}
	proxyOf := config.ProxyFunc()
	return func(to Target) *url.URL {
		by, err := proxyOf(&url.URL{Scheme: "https", Host: to.String()})
		if err != nil || by == nil || by.Scheme != "http" && by.Scheme != "https" {
			return nil
		}
		return by
	}
}

// connectBy connects to a target through another proxy.
func connectBy(ctx context.Context, by *url.URL, to Target) (net.Conn, error) {
	port := by.Port()
	if port == "" {
		port = map[string]string{"http": "80", "https": "443"}[by.Scheme]
	}
	failed := func(err error) error {
		status := http.StatusBadGateway
		if causeOf(err) == errTimeout.Error() {
			status = http.StatusGatewayTimeout
		}
		return refuse(status, "%s could not be reached through the proxy %s, which HTTPS_PROXY of acphost names: %s", to, by.Host, causeOf(err))
	}
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", net.JoinHostPort(by.Hostname(), port))
	if err != nil {
		return nil, failed(err)
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Now()) })
	if by.Scheme == "https" {
		conn = tls.Client(conn, &tls.Config{ServerName: by.Hostname(), MinVersion: tls.VersionTLS12})
	}
	reader, err := tunnelBy(conn, by, to)
	if !stop() {
		err = errors.Join(err, context.Cause(ctx))
	}
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close()
		return nil, failed(err)
	}
	return &readConn{conn, reader}, nil
}

// tunnelBy requests a tunnel from a proxy, and returns a reader of its data.
func tunnelBy(conn net.Conn, by *url.URL, to Target) (*bufio.Reader, error) {
	request := &http.Request{Method: http.MethodConnect, URL: &url.URL{Opaque: to.String()}, Host: to.String(), Header: http.Header{}}
	if user := by.User; user != nil {
		password, _ := user.Password()
		request.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := request.Write(conn); err != nil {
		return nil, err
	}
	reader := bufio.NewReader(conn)
	response, err := http.ReadResponse(reader, request) //nolint:bodyclose // the body is closed with the connection
	if err != nil {
		return nil, err
	}
	if response.StatusCode != http.StatusOK { // the connection is closed, with the body
		return nil, fmt.Errorf("the proxy answered %q", printable(response.Status))
	}
	return reader, nil
}

// readConn is a connection of which some data was read into a buffer.
type readConn struct {
	net.Conn
	reader *bufio.Reader
}

func (c *readConn) Read(b []byte) (int, error) { return c.reader.Read(b) }

// CloseWrite closes the sending direction.
func (c *readConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}
