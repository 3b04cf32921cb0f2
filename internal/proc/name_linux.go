package proc

import (
	"os"
	"path"
)

// SetName sets the name of this process to the name of its program, for people who list processes, if the kernel has
// named it after a path in /proc by which it was executed. It needs a dumpable process: see Undumpable.
func SetName() {
	if own, err := os.Executable(); err == nil {
		_ = os.WriteFile("/proc/self/comm", []byte(path.Base(own)), 0)
	}
}
