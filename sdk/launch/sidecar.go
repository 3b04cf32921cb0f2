package launch

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/acphost/acphost/sdk/internal/peer"
)

// dialSidecar connects to a handler that somebody else started.
func dialSidecar(ctx context.Context, s Spec) (*Instance, error) {
	network, target, err := splitAddress(s.Address)
	if err != nil {
		return nil, err
	}
	if network == "tcp" && s.TLS == nil {
		return nil, fmt.Errorf("address %s: a sidecar is reached over TCP only with mutual TLS: name tls files", s.Address)
	}
	config, err := s.TLS.load(network, target)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.HandshakeTimeout,
		fmt.Errorf("%s did not answer within %s", s.Address, s.HandshakeTimeout))
	defer cancel()
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, network, target)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w (is the sidecar running?)", s.Address, err)
	}
	if config == nil {
		if err := s.checkPeer(socket); err != nil {
			_ = socket.Close()
			return nil, err
		}
	}
	conn, err := connect(ctx, socket, config)
	switch {
	case err != nil && config != nil:
		// A server that refuses our certificate just hangs up: TLS 1.3 tells a client too late.
		return nil, fmt.Errorf("%s, with mutual TLS: %w (does each side trust the other's certificate?)", s.Address, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.Address, err)
	}
	watching, watch := context.WithCancel(context.Background())
	i := &Instance{
		name: s.Name, log: s.Logger, conn: conn, socket: socket, address: s.Address,
		mtls: config != nil, grace: s.StopGrace, watch: watch,
		done: make(chan struct{}), stopped: make(chan struct{}),
	}
	i.work.Go(func() {
		watchLoss(watching, conn, func() {
			if !i.stopping.Load() {
				i.err = fmt.Errorf("the connection to %s is lost", s.Address)
			}
			close(i.done)
		})
	})
	return i, nil
}

// checkPeer refuses a socket that is served by another user than s allows: the path alone proves nothing.
func (s *Spec) checkPeer(socket net.Conn) error {
	want := uint32(os.Geteuid())
	if s.UID != nil {
		want = *s.UID
	}
	got, err := peer.UID(socket)
	if err != nil {
		return fmt.Errorf("dial %s without tls: %w: use mutual TLS", s.Address, err)
	}
	if got != want {
		return fmt.Errorf("dial %s: it is served by user %d, not by %d as configured", s.Address, got, want)
	}
	return nil
}

// load reads the files. A nil receiver is no TLS.
func (t *TLSFiles) load(network, target string) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	authority, err := os.ReadFile(t.CA)
	if err != nil {
		return nil, fmt.Errorf("read the tls authority: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(authority) {
		return nil, fmt.Errorf("read the tls authority: %s holds no certificate in PEM", t.CA)
	}
	pair, err := tls.LoadX509KeyPair(t.Cert, t.Key)
	if err != nil {
		return nil, fmt.Errorf("read the tls certificate and key: %w", err)
	}
	name := t.ServerName
	if name == "" {
		name = "localhost"
		if network == "tcp" {
			if name, _, err = net.SplitHostPort(target); err != nil {
				return nil, fmt.Errorf("address %q: %w", target, err)
			}
		}
	}
	return &tls.Config{
		RootCAs:      roots,
		Certificates: []tls.Certificate{pair},
		ServerName:   name,
		MinVersion:   tls.VersionTLS13,
	}, nil
}

// splitAddress takes "unix:///PATH", "unix:/PATH" and "tcp://HOST:PORT" apart.
func splitAddress(address string) (network, target string, err error) {
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		if !filepath.IsAbs(path) {
			return "", "", fmt.Errorf("address %q: the path of a unix socket must be absolute: unix:///PATH", address)
		}
		return "unix", path, nil
	}
	if hostport, ok := strings.CutPrefix(address, "tcp://"); ok {
		host, port, err := net.SplitHostPort(hostport)
		if err != nil {
			return "", "", fmt.Errorf("address %q: %w", address, err)
		}
		if host == "" || port == "" {
			return "", "", fmt.Errorf("address %q: %w", address, errors.New("host and port are both needed"))
		}
		return "tcp", hostport, nil
	}
	return "", "", fmt.Errorf("address %q is neither unix:///PATH nor tcp://HOST:PORT", address)
}
