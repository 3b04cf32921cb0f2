// Package commandtest calls a command in a test, as the program does, and provides fake supervisors for the command.
package commandtest

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/spf13/cobra"

	"github.com/acphost/acphost/internal/rundir"
	"github.com/acphost/acphost/services/supervisor/internal/cli/internal/command"
)

// Call is one call of the program.
type Call struct {
	Env      map[string]string
	Stdin    string
	Terminal bool // standard input and output are a terminal
	Agent    bool // an agent started it
}

// Run calls a command with arguments, of which the first is its name. It returns the exit status and the output.
func (c *Call) Run(t *testing.T, build func(*command.Call) *cobra.Command, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	call := c.New(t)
	status = Execute(t.Context(), call, build, args)
	read := func(f *os.File) string {
		data, err := os.ReadFile(f.Name())
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return status, read(call.Stdout), read(call.Stderr)
}

// New returns the call, with files as the standard streams.
func (c *Call) New(t *testing.T) *command.Call {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) *os.File {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(filepath.Join(dir, name), os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	return &command.Call{
		Stdin: file("stdin", c.Stdin), Stdout: file("stdout", ""), Stderr: file("stderr", ""), Version: "test",
		Env:      func(name string) string { return c.Env[name] },
		Terminal: func(*os.File) bool { return c.Terminal },
		Sockets:  Sockets, FromAgent: func(pid int) (bool, error) { return c.Agent && pid == os.Getpid(), nil },
	}
}

// Execute is command.Execute for a command below the root, or the root.
func Execute(ctx context.Context, call *command.Call, build func(*command.Call) *cobra.Command, args []string) int {
	root := build(call)
	if root.Name() != "acphost" {
		root = command.Group("acphost", "", "", root)
	}
	return command.Execute(ctx, call, root, args)
}

// Sockets excludes supervisors that run on this machine. It is for command.Call.
func Sockets(env func(string) string) []string {
	if env("XDG_RUNTIME_DIR") == "" {
		return nil
	}
	return []string{rundir.Dir(env)}
}

// ConfigFile returns a configuration file with a text.
func ConfigFile(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(file, []byte(cmp.Or(text, "{}")), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
