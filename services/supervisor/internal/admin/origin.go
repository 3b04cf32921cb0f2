package admin

import (
	"net"
	"strconv"

	"github.com/acphost/acphost/internal/peer"
)

// processOf returns the origin of a connection on a unix socket: the process that connected, if the kernel reports it.
func processOf(conn net.Conn) string {
	c, err := peer.Of(conn)
	c.Close()
	if err != nil || c.PID <= 0 {
		return ""
	}
	return strconv.Itoa(c.PID)
}

// noOrigin is the origin of connections that share one limit.
func noOrigin(net.Conn) string { return "" }
