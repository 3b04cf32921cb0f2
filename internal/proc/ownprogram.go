package proc

import (
	"fmt"
	"os"
)

// ownFile leads to the very file that a process runs, whatever its path leads to by now.
const ownFile = "/proc/self/exe"

// OwnProgram names the program that this process runs, to execute it again. On Linux that is the very file that was started,
// even if another one was put in its place or it was deleted. Elsewhere, and where there is no /proc, it is the path: what
// lies there when it is executed is what runs.
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
