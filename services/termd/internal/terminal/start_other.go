//go:build !linux

package terminal

import (
	"os"

	"github.com/acphost/acphost/services/termd/internal/command"
)

// holdDirectory returns the name of the directory that was checked, if it is still there. Here it may be replaced a
// moment later.
func holdDirectory(dir command.Folder) (name string, release func(), err error) {
	if info, err := os.Lstat(dir.Path); err != nil || !dir.Is(info) {
		return "", nil, command.Replaced(dir.Path)
	}
	return dir.Path, func() {}, nil
}
