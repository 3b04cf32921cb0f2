package launch

import (
	"fmt"
	"os"
)

// socketPathMax is the longest path of a unix socket that every platform takes (macOS: 104 bytes with the final NUL).
const socketPathMax = 103

// socketNameMax is room for what stands below the base folder: our own folder, and the child's "pluginNNNNNNNNNN".
const socketNameMax = len("/acphost-4294967295/plugin4294967295")

// socketDir makes a folder that only this user can enter, with a path short enough for sockets below it.
func socketDir() (string, error) {
	base := os.TempDir()
	if len(base)+socketNameMax > socketPathMax {
		base = "/tmp"
	}
	dir, err := os.MkdirTemp(base, "acphost-")
	if err != nil {
		return "", fmt.Errorf("make a folder for its socket: %w", err)
	}
	return dir, nil
}
