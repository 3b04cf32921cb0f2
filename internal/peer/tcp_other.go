//go:build !linux

package peer

import "net/netip"

// NoPersonTCP says nothing on systems that do not tell whose a TCP connection is: there, agents have no sockets of their own to
// be kept from either, and people sign in with tokens.
func NoPersonTCP(_, _ netip.AddrPort, _ int) (why string, err error) { return "", nil }
