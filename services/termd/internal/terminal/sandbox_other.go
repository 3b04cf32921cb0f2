//go:build !linux

package terminal

import (
	"os"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/termd/internal/command"
)

// sandboxed fails: there is no sandbox here.
func sandboxed(start, *command.Sandbox) (start, *os.File, func(), error) {
	return start{}, nil, nil, sandbox.ErrUnsupported
}
