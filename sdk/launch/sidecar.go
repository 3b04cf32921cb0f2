package launch

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/acphost/acphost/internal/keyfiles"
	"github.com/acphost/acphost/internal/panics"
	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/sdk/internal/secret"
	"github.com/acphost/acphost/sdk/internal/wire"
)

// dialSidecar connects to a running handler.
func dialSidecar(ctx context.Context, s Spec) (*Instance, error) {
	network, target, err := splitAddress(s.Address)
	if err != nil {
		return nil, err
	}
	switch {
	case network == "tcp" && s.TLS == nil:
		return nil, fmt.Errorf("address %s: a sidecar is reached over TCP only with mutual TLS: name tls files", s.Address)
	case s.TLS == nil && s.SecretFile == "":
		return nil, fmt.Errorf("address %s: a sidecar must know who calls: name a secret file, or tls files for mutual TLS", s.Address)
	}
	config, err := s.TLS.load(network, target)
	if err != nil {
		return nil, err
	}
	var creds *secretCredentials
	if s.SecretFile != "" {
		key, err := secret.Load(s.SecretFile)
		if err != nil {
			return nil, err
		}
		creds = &secretCredentials{PerRPCCredentials: key.Credentials()}
	}
	ctx, cancel := context.WithTimeoutCause(ctx, s.HandshakeTimeout,
		fmt.Errorf("%s did not answer within %s", s.Address, s.HandshakeTimeout))
	defer cancel()
	var dialer net.Dialer
	socket, err := dialer.DialContext(ctx, network, target)
	if err != nil {
		if op, ok := errors.AsType[*net.OpError](err); ok {
			err = op.Err // without "dial" and the address again
		}
		return nil, fmt.Errorf("dial %s: %w (is the sidecar running?)", s.Address, err)
	}
	if network == "unix" && (config == nil || s.UID != nil) {
		if err := s.checkPeer(socket); err != nil {
			_ = socket.Close()
			return nil, err
		}
	}
	conn, err := connect(ctx, socket, config, creds)
	switch {
	case err != nil && config != nil:
		// A server that rejects the client's certificate closes the connection: with TLS 1.3 the client gets the error
		// too late.
		return nil, fmt.Errorf("%s, with mutual TLS: %w (does each side trust the other's certificate?)", s.Address, err)
	case err != nil:
		return nil, fmt.Errorf("%s: %w", s.Address, err)
	}
	if creds != nil {
		if err := creds.checkSecret(ctx, conn); err != nil {
			_ = conn.Close()
			return nil, fmt.Errorf("%s: %w", s.Address, err)
		}
	}
	i, watching := newInstance(s, socket, conn, s.Address)
	i.mtls = config != nil
	i.work.Go(func() {
		defer panics.Recover(s.Logger, "watching the connection to a sidecar")
		watchLoss(watching, conn, func() {
			if !i.stopping.Load() {
				i.err = fmt.Errorf("the connection to %s is lost", s.Address)
			}
			close(i.done)
		})
	})
	return i, nil
}

// secretCredentials adds a secret to calls, once the other end is known to require it.
type secretCredentials struct {
	credentials.PerRPCCredentials
	on atomic.Bool
}

// GetRequestMetadata implements credentials.PerRPCCredentials.
func (s *secretCredentials) GetRequestMetadata(ctx context.Context, uri ...string) (map[string]string, error) {
	if !s.on.Load() {
		return nil, nil
	}
	return s.PerRPCCredentials.GetRequestMetadata(ctx, uri...)
}

// checkSecret checks that the sidecar rejects a call without the secret, because otherwise every client could call it,
// and accepts a call with it.
func (s *secretCredentials) checkSecret(ctx context.Context, conn *grpc.ClientConn) error {
	ask := func() codes.Code {
		_, err := grpc_health_v1.NewHealthClient(conn).Check(ctx, &grpc_health_v1.HealthCheckRequest{Service: wire.HealthService})
		return status.Code(err)
	}
	switch code := ask(); {
	case ctx.Err() != nil:
		return fmt.Errorf("no answer on the connection: %w", context.Cause(ctx))
	case code == codes.Unavailable:
		return errLost
	case code != codes.Unauthenticated:
		return errors.New("the sidecar answers calls without its secret, so that any client could call it: " +
			"it must require one (--secret-file, for handlers made with acphost's sdk)")
	}
	s.on.Store(true)
	if ask() == codes.Unauthenticated {
		return errors.New("the sidecar rejects this secret: its --secret-file and secret_file here must hold the same " +
			"(a sidecar reads its file when it starts)")
	}
	return nil
}

// checkPeer rejects a socket that is served by another user than s permits: the path alone proves nothing.
func (s *Spec) checkPeer(socket net.Conn) error {
	want := uint32(os.Geteuid())
	if s.UID != nil {
		want = *s.UID
	}
	got, err := peer.UID(socket)
	if err != nil {
		return fmt.Errorf("dial %s: which user serves it has to be known: %w", s.Address, err)
	}
	if got != want {
		return fmt.Errorf("dial %s: the sidecar runs as user %d, and has to run as user %d: start it as that user, or name its user "+
			"by uid in the handler's configuration", s.Address, got, want)
	}
	return nil
}

// load reads the files. A nil receiver means no TLS.
func (t *TLSFiles) load(network, target string) (*tls.Config, error) {
	if t == nil {
		return nil, nil
	}
	roots, pair, err := keyfiles.Files{CA: t.CA, Cert: t.Cert, Key: t.Key}.Pair()
	if err != nil {
		return nil, fmt.Errorf("read the tls files: %w", err)
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

// splitAddress splits an address, and checks that a TCP address has a host and a port.
func splitAddress(address string) (network, target string, err error) {
	network, target, err = wire.SplitAddress("address", address)
	if network != "tcp" {
		return network, target, err
	}
	host, port, err := net.SplitHostPort(target)
	if err != nil {
		return "", "", fmt.Errorf("address %q: %w", address, err)
	}
	if host == "" || port == "" {
		return "", "", fmt.Errorf("address %q: host and port are both needed", address)
	}
	return network, target, nil
}
