//go:build !linux

package agent

import (
	"net"
	"os"

	"github.com/acphost/acphost/internal/sandbox"
)

// socketPair is for sandboxes, of which there are none here.
func socketPair() (net.Conn, *os.File, error) { return nil, nil, sandbox.ErrUnsupported }
