package proc

import (
	"fmt"
	"os"
)

// ownFile leads to the file that a process runs, even if its path leads elsewhere by now.
const ownFile = "/proc/self/exe"

// OwnProgram returns a path by which this process can execute its own program again. On Linux it leads to the very file
// that was started, even if that was replaced or deleted. Elsewhere, and without /proc, it is the program's path: the
// file there at the time of execution runs.
func OwnProgram() (string, error) {
	if _, err := os.Stat(ownFile); err == nil {
		return ownFile, nil
	}
	path, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find our own program: %w", err)
	}
	return path, nil
}
