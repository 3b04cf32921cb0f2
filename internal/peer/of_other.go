//go:build !linux && !darwin

package peer

import "net"

// Of cannot tell who is at the other end here.
func Of(net.Conn) (Peer, error) { return Peer{}, ErrUnsupported }
