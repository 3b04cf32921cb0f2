//go:build !linux && !darwin

package peer

import "net"

// Of returns ErrUnsupported.
func Of(net.Conn) (Peer, error) { return Peer{}, ErrUnsupported }
