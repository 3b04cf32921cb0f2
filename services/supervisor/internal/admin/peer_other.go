//go:build !linux && !darwin

package admin

import (
	"errors"
	"net"
)

// callerOn cannot tell who connected here.
func callerOn(net.Conn) (caller, error) { return caller{}, errors.ErrUnsupported }
