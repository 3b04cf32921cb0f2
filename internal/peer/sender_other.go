//go:build !linux

package peer

import (
	"net"
	"syscall"
)

// ReportSenders does nothing: there is no control socket on these systems.
func ReportSenders(syscall.Conn) error { return nil }

// BySender returns its arguments.
func BySender(conn net.Conn, c Peer) (net.Conn, Process) { return conn, c.Process }
