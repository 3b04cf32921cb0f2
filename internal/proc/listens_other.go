//go:build !linux

package proc

import (
	"fmt"
	"net/netip"
)

// Listens needs /proc: here it returns ErrUnsupported.
func Listens(port uint16) (bool, error) {
	return false, fmt.Errorf("sockets that listen at port %d: %w", port, ErrUnsupported)
}

// ListensAlone needs /proc: here it returns ErrUnsupported.
func ListensAlone(port uint16, _ ...int) (bool, error) {
	return false, fmt.Errorf("find the processes that listen on port %d: %w", port, ErrUnsupported)
}

// Listener is a TCP socket that listens.
type Listener struct {
	Address netip.AddrPort
	PID     int
}

// Listeners needs /proc: here it returns ErrUnsupported.
func Listeners(...int) ([]Listener, error) {
	return nil, fmt.Errorf("list the sockets that listen: %w", ErrUnsupported)
}
