package admin

import (
	"net"
	"strconv"

	"github.com/acphost/acphost/internal/peer"
)

// processOf is the origin of a connection on a unix socket: the process that connected, where the system says it.
func processOf(conn net.Conn) string {
	c, err := peer.Of(conn)
	c.Close()
	if err != nil || c.PID <= 0 {
		return ""
	}
	return strconv.Itoa(c.PID)
}

// nowhere is the origin of connections that need not be told apart.
func nowhere(net.Conn) string { return "" }
