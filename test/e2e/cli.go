package e2e

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"testing"

	"github.com/acphost/acphost/test/wire"
)

// Misspelt is a file with a word that the demo agent corrects.
const Misspelt = "# Notes\n\nWe will recieve the parts on Monday.\n"

// Cli runs acphost and returns its exit status and what it printed.
func (p *Place) Cli(t testing.TB, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	cmd := wire.Command(t, Program("acphost"), args...)
	cmd.Dir, cmd.Env = p.Work, p.Env()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		exit, ok := errors.AsType[*exec.ExitError](err)
		if !ok {
			t.Fatal(err)
		}
		status = exit.ExitCode()
	}
	return status, out.String(), errs.String()
}

// Shell runs a line as a person would, with tools in the PATH.
func (p *Place) Shell(t testing.TB, tools, line string, variables ...string) (string, error) {
	cmd := wire.Command(t, "sh", "-c", line)
	cmd.Dir, cmd.Env = p.Work, append(p.Env(variables...), "PATH="+tools+string(os.PathListSeparator)+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	return string(out), err
}
