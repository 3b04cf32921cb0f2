package command

import (
	"errors"
	"fmt"
	"syscall"
)

// The kinds of errors, found with errors.Is.
var (
	// ErrInvalid: what was asked for makes no sense, or lies outside of what may be asked for.
	ErrInvalid = errors.New("invalid")
	// ErrProtected: the place is the supervisor's own.
	ErrProtected = errors.New("protected")
	// ErrCannotStart: there is no such program, or it cannot be run.
	ErrCannotStart = errors.New("cannot start")
	// ErrReplaced: the working directory is not the one that was decided about any more.
	ErrReplaced = errors.New("replaced")
)

// failure is an error of a kind whose text does not name the kind.
type failure struct {
	kind error
	text string
}

func (f *failure) Error() string { return f.text }
func (f *failure) Unwrap() error { return f.kind }

// Invalid is an ErrInvalid with this text.
func Invalid(format string, args ...any) error {
	return &failure{ErrInvalid, fmt.Sprintf(format, args...)}
}

// Replaced is an ErrReplaced about a working directory.
func Replaced(cwd string) error {
	return &failure{ErrReplaced, "cwd: " + cwd + " was replaced after the command was looked at: ask again"}
}

// CannotStart says why a program could not be started. Agents take some of the system's own words, such as those of
// ENOENT, for "there is no such file": they are worded anew here.
func CannotStart(program string, err error) error {
	return &failure{ErrCannotStart, fmt.Sprintf("cannot start %q: %s", program, Reason(err))}
}

// Reason words an error of the system without words that agents act on.
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
