package command

import (
	"errors"
	"fmt"
	"syscall"
)

// The kinds of errors, found with errors.Is.
var (
	// ErrInvalid: the request is malformed, or outside of its limits.
	ErrInvalid = errors.New("invalid")
	// ErrProtected: the path belongs to the supervisor.
	ErrProtected = errors.New("protected")
	// ErrCannotStart: the program does not exist, or cannot be run.
	ErrCannotStart = errors.New("cannot start")
	// ErrReplaced: the working directory was replaced after the decision.
	ErrReplaced = errors.New("replaced")
)

// failure is an error of a kind whose text does not name the kind.
type failure struct {
	kind error
	text string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }

// Invalid returns an ErrInvalid with a text.
func Invalid(format string, args ...any) error {
	return &failure{ErrInvalid, fmt.Sprintf(format, args...)}
}

// Replaced returns an ErrReplaced for a working directory.
func Replaced(cwd string) error {
	return &failure{ErrReplaced, "cwd: " + cwd + " was replaced after the command was looked at: ask again"}
}

// CannotStart returns an ErrCannotStart. Agents interpret some of the system's texts, such as that of ENOENT, as "there
// is no such file", so it replaces them.
func CannotStart(program string, err error) error {
	return &failure{ErrCannotStart, fmt.Sprintf("cannot start %q: %s", program, Reason(err))}
}

// Reason converts a system error to a text without words that agents react to.
func Reason(err error) string {
	var errno syscall.Errno
	if !errors.As(err, &errno) {
		return err.Error()
	}
	switch errno {
	case syscall.ENOENT:
		return "the file, or the interpreter that its first line names, is missing"
	case syscall.ENOEXEC:
		return "it is no program for this machine, and a script needs a first line that starts with #!"
	case syscall.E2BIG:
		return "the arguments and the environment are too long together, or one of them is longer than 128 KiB"
	case syscall.ENOTDIR:
		return "a part of its path is no directory"
	}
	return errno.Error()
}
