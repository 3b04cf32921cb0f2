package handler

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// own are acphost's own programs.
var own = []string{"acphost", "fsd", "permd", "termd"}

func newCopy(call *command.Call) *cobra.Command {
	return &cobra.Command{
		Use:   "copy NAME FOLDER",
		Short: "Copy acphost or one of its own handlers into a folder",
		Long: `Copy acphost, or one of its own handlers (fsd, permd or termd), into a folder. An
existing file of that name is replaced.

Use it in an init container of acphost's image, which has no shell, to copy the
programs into a volume. A container with your agent then runs acphost from the
volume, and a container with your tools runs termd as a sidecar.`,
		Example: `  acphost handler copy termd /programs`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 2 || !slices.Contains(own, args[0]) {
				return command.UsageErrorf(cmd, "expected the program's name (%s), and the folder to copy it into", strings.Join(own, ", "))
			}
			return nil
		},
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
			if len(args) == 0 {
				return own, cobra.ShellCompDirectiveNoFileComp
			}
			return nil, cobra.ShellCompDirectiveFilterDirs
		},
		RunE: func(_ *cobra.Command, args []string) error {
			from, err := call.Programs()
			if err != nil {
				return err
			}
			if err := copyProgram(filepath.Join(from.Dir, args[0]), args[1]); err != nil {
				return fmt.Errorf("copy %s: %w", args[0], err)
			}
			_, err = fmt.Fprintln(call.Stdout, filepath.Join(args[1], args[0]))
			return err
		},
	}
}

// copyProgram copies a program into a folder atomically, because a container may start meanwhile.
func copyProgram(file, folder string) (err error) {
	in, err := os.Open(file)
	if err != nil {
		return err
	}
	defer in.Close()
	name := filepath.Base(file)
	out, err := os.CreateTemp(folder, "."+name+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(out.Name()))
		}
	}()
	_, copied := io.Copy(out, in)
	if err := errors.Join(copied, out.Chmod(0o755), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), filepath.Join(folder, name))
}
