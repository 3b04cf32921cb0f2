//go:build !linux

package admin

import (
	"net"

	"github.com/acphost/acphost/internal/peer"
)

// tellSenders has nobody to ask here, where there is no control socket.
func tellSenders(*net.UnixListener) error { return nil }

func bySender(conn net.Conn, c peer.Peer) (net.Conn, peer.Process) { return conn, c.Process }
