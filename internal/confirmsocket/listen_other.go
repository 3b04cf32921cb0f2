//go:build !linux

package confirmsocket

import "net"

// Listen returns ErrUnsupported. Only Linux is supported.
func Listen() (net.Listener, string, error) { return nil, "", ErrUnsupported }

// Find returns ErrUnsupported. Only Linux is supported.
func Find() ([]string, error) { return nil, ErrUnsupported }
