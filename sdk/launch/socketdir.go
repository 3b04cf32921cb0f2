package launch

import (
	"errors"
	"fmt"
	"os"
	"slices"
)

// socketPathMax is the longest path of a unix socket that every platform takes (macOS: 104 bytes with the final NUL).
const socketPathMax = 103

// socketNameMax is room for what stands below the base folder: our own folder, and the child's "pluginNNNNNNNNNN".
const socketNameMax = len("/acphost-4294967295/plugin4294967295")

// socketDir makes a folder that only this user can enter, with a path short enough for sockets below it. A container with
// a read-only root may have no temporary folder that can be written; what is in memory still can, as a rule.
func socketDir() (string, error) {
	bases := []string{os.TempDir(), "/tmp", "/run", "/dev/shm"}
	var problems []error
	for i, base := range bases {
		if len(base)+socketNameMax > socketPathMax || slices.Contains(bases[:i], base) {
			continue
		}
		dir, err := os.MkdirTemp(base, "acphost-")
		if err == nil {
			return dir, nil
		}
		problems = append(problems, err)
	}
	return "", fmt.Errorf("make a folder for its socket, which needs one that can be written: set TMPDIR: %w", errors.Join(problems...))
}
