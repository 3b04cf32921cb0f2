//go:build !linux

package decisions

import (
	"net"
	"os"

	"github.com/acphost/acphost/internal/sandbox"
)

// Pair fails: there is no sandbox here.
func Pair() (net.Conn, *os.File, error) { return nil, nil, sandbox.ErrUnsupported }
