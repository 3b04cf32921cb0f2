//go:build !linux

package peer

import (
	"net"
	"syscall"
)

// TellSenders has nobody to ask here, where there is no control socket.
func TellSenders(syscall.Conn) error { return nil }

// BySender tells nothing more than is known of the peer.
func BySender(conn net.Conn, c Peer) (net.Conn, Process) { return conn, c.Process }
