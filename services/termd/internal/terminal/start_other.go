//go:build !linux

package terminal

import (
	"os"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// holdDirectory names the directory that was checked, if it is still there. Here nothing keeps it from being replaced a
// moment later.
func holdDirectory(dir command.Folder) (name string, release func(), err error) {
	if info, err := os.Lstat(dir.Path); err != nil || !dir.Is(info) {
		return "", nil, command.Replaced(dir.Path)
	}
	return dir.Path, func() {}, nil
}
