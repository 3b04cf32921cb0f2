//go:build !linux

package terminal

import (
	"os"

	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/termd/internal/command"
)

// inSandbox fails: there is no sandbox here.
func inSandbox(start, *command.Sandbox) (start, *os.File, func(), error) {
	return start{}, nil, nil, sandbox.ErrUnsupported
}
