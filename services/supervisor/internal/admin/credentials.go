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

	"github.com/acphost/acphost/internal/peer"
	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// byKernel asks the kernel who is at the other end of a unix socket: the same user, or root; anyone else is turned away
// before a byte is read. For the client it looks like a plain connection. control and verbs are those of identity.
func byKernel(control bool, verbs string, logger *slog.Logger) func(context.Context, net.Conn) (net.Conn, identity, error) {
	return func(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
		c, err := peer.Of(conn)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // the modes of socket and folder still stand
			logger.Debug("cannot tell who connects to the admin socket", "error", err)
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
		who := identity{process: c, control: control, verbs: verbs}
		who.SecurityLevel = credentials.PrivacyAndIntegrity // it never leaves the kernel
		if c.Process != nil {
			conn = &heldConn{conn, c.Process.Close}
		}
		return conn, who, nil
	}
}

// byCertificate has the other end show a certificate of the authority, over TLS.
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
		who := identity{certificate: true, name: state.PeerCertificates[0].Subject.CommonName, fingerprint: hex.EncodeToString(print[:])}
		who.role, who.limit, who.unfit = certs.RightsOf(state.PeerCertificates[0])
		who.SecurityLevel = credentials.PrivacyAndIntegrity
		return secure, who, nil
	}
}

// byBirth knows that connections within the process come from the process.
func byBirth(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
	who := identity{self: true}
	who.SecurityLevel = credentials.PrivacyAndIntegrity
	return conn, who, nil
}

// heldConn lets go of something when the connection is closed: of a place, or of the process at the other end.
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
