package guard

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"
	"syscall"
)

// lookPath finds a program as execvp would with the agent's working directory and PATH, which differ from the guard's.
// The error is fs.ErrNotExist if there is no such program, and errNotExecutable if it cannot be executed.
func lookPath(program, dir string, env []string) (string, error) {
	if strings.Contains(program, "/") {
		if !path.IsAbs(program) {
			program = path.Join(dir, program)
		}
		return program, executable(program)
	}
	folders := "/usr/local/bin:/bin:/usr/bin"
	for _, entry := range env {
		if value, ok := strings.CutPrefix(entry, "PATH="); ok {
			folders = value
			break // the first value, as for getenv
		}
	}
	var denied error
	for folder := range strings.SplitSeq(folders, ":") {
		if folders == "" {
			break // not a folder
		}
		if !path.IsAbs(folder) {
			folder = path.Join(dir, folder) // an empty entry is the working directory
		}
		candidate := path.Join(folder, program)
		err := executable(candidate)
		if err == nil {
			return candidate, nil
		}
		// A folder that cannot be searched may not contain the program.
		if errors.Is(err, errNotExecutable) && denied == nil {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", fmt.Errorf("no %q in PATH %q: %w", program, folders, fs.ErrNotExist)
}

var errNotExecutable = errors.New("not executable")

func executable(file string) error {
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return fmt.Errorf("%s: %w", file, fs.ErrNotExist)
	case err != nil:
		return err
	case info.IsDir():
		return fmt.Errorf("%s is a folder: %w", file, errNotExecutable)
	case info.Mode()&0o111 == 0:
		return fmt.Errorf("%s: %w; chmod +x %s", file, errNotExecutable, file)
	}
	return nil
}
