//go:build !linux

package socket

import "net"

// Quiet returns conn: only Linux's is known to wake a process for nothing.
func Quiet(conn net.Conn) net.Conn { return conn }
