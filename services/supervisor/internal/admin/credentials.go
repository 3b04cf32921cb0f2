package admin

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/internal/certs"
	"github.com/acphost/acphost/internal/peer"
)

// byKernel identifies the peer of a unix socket by the kernel's peer credentials. It accepts the same user and root; it
// rejects any other user before reading a byte. The client sees a plain connection. control and verbs are those of
// identity.
func byKernel(control bool, verbs string, logger *slog.Logger) func(context.Context, net.Conn) (net.Conn, identity, error) {
	return func(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
		c, err := peer.Of(conn)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // the modes of socket and folder still protect it
			logger.Debug("cannot identify the process that connects to the admin socket", "error", err)
		case err != nil:
			return nil, identity{}, fmt.Errorf("ask who connects: %w", err)
		case c.UID != os.Geteuid() && c.UID != 0:
			c.Close()
			logger.Warn("refused another user on a unix socket", "uid", c.UID, "pid", c.PID)
			return nil, identity{}, fmt.Errorf("user %d may not connect", c.UID)
		}
		if control {
			conn, c.Process = peer.BySender(conn, c)
		}
		id := identity{process: c, control: control, verbs: verbs}
		id.SecurityLevel = credentials.PrivacyAndIntegrity // the data never leaves the kernel
		if c.Process != nil {
			conn = &heldConn{conn, c.Process.Close}
		}
		return conn, id, nil
	}
}

// byCertificate identifies the peer by a TLS certificate of the authority.
func byCertificate(server *certs.Server) func(context.Context, net.Conn) (net.Conn, identity, error) {
	return func(ctx context.Context, conn net.Conn) (net.Conn, identity, error) {
		secure := tls.Server(conn, server.Config())
		if err := secure.HandshakeContext(ctx); err != nil {
			return nil, identity{}, fmt.Errorf("%s: %w", conn.RemoteAddr(), err)
		}
		state := secure.ConnectionState()
		if state.NegotiatedProtocol != "h2" {
			return nil, identity{}, fmt.Errorf("%s speaks no HTTP/2", conn.RemoteAddr())
		}
		print := sha256.Sum256(state.PeerCertificates[0].Raw)
		id := identity{certificate: true, name: state.PeerCertificates[0].Subject.CommonName, fingerprint: hex.EncodeToString(print[:])}
		id.role, id.limit, id.unfit = certs.RightsOf(state.PeerCertificates[0])
		id.SecurityLevel = credentials.PrivacyAndIntegrity
		return secure, id, nil
	}
}

// bySelf identifies connections within the process as the process itself.
func bySelf(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
	id := identity{self: true}
	id.SecurityLevel = credentials.PrivacyAndIntegrity
	return conn, id, nil
}

// heldConn calls a function when the connection is closed: it frees an entry of a limiter, or the handle of the peer
// process.
type heldConn struct {
	net.Conn
	letGo func()
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	err := c.Conn.Close()
	c.letGo()
	return err
}
