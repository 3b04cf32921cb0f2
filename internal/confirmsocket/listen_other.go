//go:build !linux

package confirmsocket

import "net"

// Listen is for Linux alone: see ErrUnsupported.
func Listen() (net.Listener, string, error) { return nil, "", ErrUnsupported }

// Find is for Linux alone: see ErrUnsupported.
func Find() ([]string, error) { return nil, ErrUnsupported }
