package main

import (
	"os"
	"path/filepath"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	acpv1 "github.com/acphost/acphost/proto/acphost/acp/v1"
	terminalv1 "github.com/acphost/acphost/proto/acphost/terminal/v1"
	"github.com/acphost/acphost/sdk/programs"
	"github.com/acphost/acphost/sdk/roots"
)

// command is a program or shell line with its arguments.
type command struct {
	argv    []string
	shell   bool   // argv is a shell and a line that came as one string
	program string // the file to execute; empty for a shell line
	dir     string
	env     []string
}

// request has the fields that all calls with a command share.
type request interface {
	GetContext() *acpv1.CallContext
	GetCommand() string
	GetArgs() []string
	GetEnv() []*terminalv1.EnvVariable
	GetCwd() string
}

// commandOf works out what runs for a request: what was decided before, or else, with arguments, a program; without, a
// program of that whole name if there is one, and else a line for a shell.
func commandOf(r request, protected []string) (command, error) {
	c := command{argv: append([]string{r.GetCommand()}, r.GetArgs()...)}
	decided := r.GetContext().GetResolvedCommand()
	if decided != nil {
		c.argv, c.shell = decided.GetArgv(), decided.GetShell()
	}
	if len(c.argv) == 0 || strings.TrimSpace(c.argv[0]) == "" || strings.ContainsRune(strings.Join(c.argv, ""), 0) {
		return c, status.Error(codes.InvalidArgument, "command: it is empty, or has a NUL character in it")
	}
	var err error
	if c.dir, err = directory(r, protected); err != nil {
		return c, err
	}
	if c.env, err = environment(r, c.dir); err != nil {
		return c, err
	}
	find := func() string { return programs.Find(c.argv[0], os.Getenv("PATH"), c.dir) }
	switch {
	case decided.GetMissing(): // nor one that is there only now
	case decided.GetProgram() != "":
		if programs.Executable(decided.GetProgram()) {
			c.program = decided.GetProgram()
		}
	default:
		if c.program = find(); c.program == "" && decided == nil && len(r.GetArgs()) == 0 {
			c.argv, c.shell, c.program = []string{"sh", "-c", r.GetCommand()}, true, "/bin/sh"
		}
	}
	return c, nil
}

// directory is where the command runs: inside the roots, and by default in the first one.
func directory(r request, protected []string) (string, error) {
	cwd := r.GetCwd()
	if cwd == "" && len(r.GetContext().GetRoots()) > 0 {
		cwd = r.GetContext().GetRoots()[0].GetPath()
	}
	at, err := roots.Enter(r.GetContext(), cwd, protected, false)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(at.GetPath()); err != nil || !info.IsDir() {
		return "", status.Errorf(codes.InvalidArgument, "cwd: %s is not a folder", cwd)
	}
	return at.GetPath(), nil
}

// inherited are the variables of this process that commands get: others may hold secrets.
var inherited = []string{"PATH", "HOME", "TMPDIR", "LANG", "USER"}

// environment returns the whole environment of a command. It disables pagers and editors, because a command would wait
// for their input without end.
func environment(r request, dir string) ([]string, error) {
	env := []string{"TERM=xterm-256color", "PAGER=", "GIT_PAGER=cat", "GIT_EDITOR=:", "PWD=" + dir}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	for _, v := range r.GetEnv() {
		if v.GetName() == "" || strings.ContainsAny(v.GetName(), "=\x00") || strings.ContainsRune(v.GetValue(), 0) {
			return nil, status.Errorf(codes.InvalidArgument, "env: %q=%q is nothing that an environment can hold", v.GetName(), v.GetValue())
		}
		env = append(env, v.GetName()+"="+v.GetValue()) // of two of a name the last counts
	}
	if r.GetContext().GetUnasked() {
		env = programs.Quiet(env)
	}
	return env, nil
}

// startable is an error if there is no program to run.
func (c command) startable() error {
	if c.program == "" {
		return status.Errorf(codes.FailedPrecondition, "%s cannot be started: there is no such program", filepath.Clean(c.argv[0]))
	}
	return nil
}
