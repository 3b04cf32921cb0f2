//go:build !linux

package listeners

import (
	"fmt"
	"net/netip"

	"github.com/acphost/acphost/internal/proc"
)

// Exist needs /proc: here it returns proc.ErrUnsupported.
func Exist(port uint16) (bool, error) {
	return false, fmt.Errorf("sockets that listen at port %d: %w", port, proc.ErrUnsupported)
}

// Belong needs /proc: here it returns proc.ErrUnsupported.
func Belong(port uint16, _ ...int) (bool, error) {
	return false, fmt.Errorf("find the processes that listen on port %d: %w", port, proc.ErrUnsupported)
}

// Listener is a TCP socket that listens.
type Listener struct {
	Address netip.AddrPort
	PID     int
}

// List needs /proc: here it returns proc.ErrUnsupported.
func List(...int) ([]Listener, error) {
	return nil, fmt.Errorf("list the sockets that listen: %w", proc.ErrUnsupported)
}
