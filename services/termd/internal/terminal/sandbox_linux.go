package terminal

import (
	"fmt"
	"os"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/acphost/acphost/internal/nulmsg"
	"github.com/acphost/acphost/internal/proc"
	"github.com/acphost/acphost/internal/sandbox"
	"github.com/acphost/acphost/services/termd/internal/command"
)

// inSandbox returns the start of a sandbox that starts inner. The sandbox reports to outcome. closeFiles closes the
// files for the sandbox once it was started.
func inSandbox(inner start, box *command.Sandbox) (s start, outcome *os.File, closeFiles func(), err error) {
	program, err := proc.OwnProgram()
	if err != nil {
		return start{}, nil, nil, err
	}
	job, err := jobFile(sandbox.Job{Program: inner.program, Args: inner.args, Env: inner.attr.Env})
	if err != nil {
		return start{}, nil, nil, fmt.Errorf("send the command to its sandbox: %w", err)
	}
	var pipe [2]int
	if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
		_ = job.Close()
		return start{}, nil, nil, fmt.Errorf("open a pipe from its sandbox: %w", err)
	}
	_ = unix.SetNonblock(pipe[0], true) // otherwise waiting would block a thread
	theirs := os.NewFile(uintptr(pipe[1]), "outcome")
	entered, err := proc.EnterGroup(inner.attr.Sys, box.Group)
	if err != nil {
		entered = func() {} // the group was removed meanwhile: the agent has ended
	}
	closeFiles = func() { entered(); _, _ = job.Close(), theirs.Close() }
	attr := &syscall.ProcAttr{
		Dir: inner.attr.Dir, Sys: inner.attr.Sys,
		Files: append(slices.Clone(inner.attr.Files), box.Decisions.Fd(), job.Fd(), theirs.Fd()), // DecisionsFD, JobFD, OutcomeFD
	}
	args := append([]string{program, sandbox.Command, "--job"}, box.Flags...)
	return start{program, args, attr}, os.NewFile(uintptr(pipe[0]), "outcome"), closeFiles, nil
}

// jobFile returns a file in memory with a job.
func jobFile(j sandbox.Job) (*os.File, error) {
	text, err := nulmsg.Marshal(&j)
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("job", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	file := os.NewFile(uintptr(fd), "job")
	if _, err = file.Write(text); err == nil {
		_, err = file.Seek(0, 0) // the sandbox reads from the shared offset
	}
	if err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
