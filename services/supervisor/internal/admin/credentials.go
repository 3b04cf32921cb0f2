package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc/credentials"

	"github.com/acphost/acphost/services/supervisor/internal/certs"
)

// byKernel asks the kernel who is at the other end of a unix socket: the same user, or root; anyone else is turned away
// before a byte is read. For the client it looks like a plain connection.
func byKernel(logger *slog.Logger) func(context.Context, net.Conn) (net.Conn, identity, error) {
	return func(_ context.Context, conn net.Conn) (net.Conn, identity, error) {
		c, err := callerOn(conn)
		switch {
		case errors.Is(err, errors.ErrUnsupported): // the modes of socket and folder still stand
			logger.Debug("cannot tell who connects to the admin socket", "error", err)
		case err != nil:
			return nil, identity{}, fmt.Errorf("ask who connects: %w", err)
		case c.UID != os.Geteuid() && c.UID != 0:
			if c.process != nil {
				c.process.close()
			}
			logger.Warn("refused another user on the admin socket", "uid", c.UID, "pid", c.PID)
			return nil, identity{}, fmt.Errorf("user %d may not connect", c.UID)
		}
		who := identity{caller: c}
		who.SecurityLevel = credentials.PrivacyAndIntegrity // it never leaves the kernel
		if c.process != nil {
			conn = &heldConn{Conn: conn, process: c.process}
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
		who := identity{certificate: true, name: state.PeerCertificates[0].Subject.CommonName}
		who.role, who.unfit = certs.RoleOf(state.PeerCertificates[0])
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

// heldConn lets go of the process at the other end when the connection is closed.
type heldConn struct {
	net.Conn
	process process
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	err := c.Conn.Close()
	c.process.close()
	return err
}

// onSocket runs f on a unix connection's file descriptor.
func onSocket(conn net.Conn, f func(fd int) error) error {
	unixConn, ok := conn.(*net.UnixConn)
	if !ok {
		return fmt.Errorf("%T is not a unix connection", conn)
	}
	raw, err := unixConn.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) { inner = f(int(fd)) }); err != nil {
		return err
	}
	return inner
}
