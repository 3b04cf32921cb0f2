//go:build !linux

package peer

import "net/netip"

// NoPersonTCP returns an empty reason. These systems do not report the owner of a TCP connection, and people sign in
// with tokens there.
func NoPersonTCP(_, _ netip.AddrPort, _ int) (why string, err error) { return "", nil }
