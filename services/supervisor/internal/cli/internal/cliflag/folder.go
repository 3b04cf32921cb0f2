package cliflag

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"
)

// Cwd gives a command the flag for the folder that an agent works in, whose value Folder reads.
func Cwd(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVar(to, "cwd", "", "the `FOLDER` that the agent works in (default: this one)")
	Complete(cmd, "cwd", Folders)
}

// Folder is the absolute path of a folder that is there; "": the current one.
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
