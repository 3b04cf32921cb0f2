package proc

import (
	"bytes"
	"fmt"
	"os"
	"strings"
)

// CommandLine returns a process's current command line; empty for a kernel process and for a zombie. A process can
// change its own command line only.
func CommandLine(pid int) ([]string, error) {
	data, err := readProc(pid, "cmdline")
	if err != nil {
		return nil, fmt.Errorf("command line of process %d: %w", pid, err)
	}
	if len(data) == 0 {
		return nil, nil
	}
	return strings.Split(strings.TrimSuffix(string(data), "\x00"), "\x00"), nil
}

// Executable returns the file that a process runs. Unless the caller is root, it fails for processes of other users and
// for undumpable processes.
func Executable(pid int) (string, error) {
	file, err := procFile(pid, "exe")
	if err == nil {
		file, err = os.Readlink(file)
	}
	if err != nil {
		return "", fmt.Errorf("program of process %d: %w", pid, err)
	}
	return strings.TrimSuffix(file, " (deleted)"), nil
}

// StartedWith reports whether the environment that a process was started with has a variable whose name begins with one
// of the prefixes. It fails where Executable fails.
func StartedWith(pid int, prefixes ...string) (bool, error) {
	data, err := readProc(pid, "environ")
	if err != nil {
		return false, fmt.Errorf("environment of process %d: %w", pid, err)
	}
	for entry := range bytes.SplitSeq(data, []byte{0}) {
		for _, prefix := range prefixes {
			if bytes.HasPrefix(entry, []byte(prefix)) {
				return true, nil
			}
		}
	}
	return false, nil
}
