package proc

import (
	"os"
	"path"
)

// TakeName gives this process the name of its program, for people who look at processes, where the kernel has named it after
// a path in /proc by which it was executed. It works as long as the process is dumpable: see Undumpable.
func TakeName() {
	if own, err := os.Executable(); err == nil {
		_ = os.WriteFile("/proc/self/comm", []byte(path.Base(own)), 0)
	}
}
