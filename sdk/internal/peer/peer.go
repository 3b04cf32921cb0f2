// Package peer asks the kernel who is at the other end of a unix socket. What it says cannot be forged by the peer.
package peer

import (
	"errors"
	"fmt"
	"net"
	"syscall"
)

// ErrUnsupported is wrapped by UID where the platform cannot tell.
var ErrUnsupported = errors.New("the platform does not tell a unix socket's peer")

// UID returns the effective user id of the process at the other end of conn as it was when it connected or listened.
// conn must be a connected unix stream socket.
func UID(conn net.Conn) (uint32, error) {
	raw, ok := conn.(syscall.Conn)
	if !ok {
		return 0, fmt.Errorf("ask for the peer's user id: %T is not a socket", conn)
	}
	control, err := raw.SyscallConn()
	if err != nil {
		return 0, fmt.Errorf("ask for the peer's user id: %w", err)
	}
	var uid uint32
	var asked error
	if err := control.Control(func(fd uintptr) { uid, asked = peerUID(int(fd)) }); err != nil {
		return 0, fmt.Errorf("ask for the peer's user id: %w", err)
	}
	if asked != nil {
		return 0, fmt.Errorf("ask for the peer's user id: %w", asked)
	}
	return uid, nil
}
