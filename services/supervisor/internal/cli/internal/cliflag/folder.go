package cliflag

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// Cwd adds the flag for the working folder of an agent to a command. Folder reads its value.
func Cwd(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "cwd", "", "the `FOLDER` that the agent works in (default: this one)")
	Complete(cmd, "cwd", Folders)
}

// Folder returns the absolute path of an existing folder. An empty name means the current one.
func Folder(name string) (string, error) {
	path, err := filepath.Abs(name)
	if err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if !info.IsDir() {
		return "", fmt.Errorf("%s: %w", path, syscall.ENOTDIR)
	}
	return path, nil
}
