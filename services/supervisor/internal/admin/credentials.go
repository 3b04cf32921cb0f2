package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"

	"google.golang.org/grpc/credentials"
)

// peerCredentials are the server's side of a connection without encryption, on which the kernel says who is at the
// other end: the same user, or root; anyone else is turned away before a byte is read. For the client it looks like a
// plain connection.
type peerCredentials struct{ logger *slog.Logger }

// peerInfo is what the server knows of a connection.
type peerInfo struct {
	credentials.CommonAuthInfo
	caller caller
}

// AuthType implements credentials.AuthInfo.
func (peerInfo) AuthType() string { return "peer credentials" }

// ServerHandshake implements credentials.TransportCredentials.
func (p peerCredentials) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c, err := callerOn(conn)
	switch {
	case errors.Is(err, errors.ErrUnsupported): // the modes of socket and folder still stand
		p.logger.Debug("cannot tell who connects to the admin socket", "error", err)
	case err != nil:
		return nil, nil, fmt.Errorf("ask who connects: %w", err)
	case c.UID != os.Geteuid() && c.UID != 0:
		if c.process != nil {
			c.process.close()
		}
		p.logger.Warn("refused another user on the admin socket", "uid", c.UID, "pid", c.PID)
		return nil, nil, fmt.Errorf("user %d may not connect", c.UID)
	}
	info := peerInfo{caller: c}
	info.SecurityLevel = credentials.PrivacyAndIntegrity // it never leaves the kernel
	if c.process != nil {
		conn = &heldConn{Conn: conn, process: c.process}
	}
	return conn, info, nil
}

// ClientHandshake implements credentials.TransportCredentials. These are a server's.
func (peerCredentials) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, errors.New("peer credentials are for servers")
}

// Info implements credentials.TransportCredentials.
func (peerCredentials) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "peercred"}
}

// Clone implements credentials.TransportCredentials.
func (p peerCredentials) Clone() credentials.TransportCredentials { return p }

// OverrideServerName implements credentials.TransportCredentials.
func (peerCredentials) OverrideServerName(string) error { return nil }

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
