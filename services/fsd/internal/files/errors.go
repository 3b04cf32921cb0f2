package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind is the kind of an Error, so that a server can map an error without parsing its text.
type Kind int

// The kinds of Error.
const (
	// Invalid is a request that can never succeed unchanged: a relative path, or reading a folder as a file.
	Invalid Kind = iota + 1
	// Escapes is a path that leads out of the roots.
	Escapes
	// Missing is a file that does not exist.
	Missing
	// TooLarge is content that exceeds the configured limit.
	TooLarge
	// NotText is content that is not UTF-8, or contains a NUL.
	NotText
	// Denied is an operation that the system's permissions, or a read-only root, forbid.
	Denied
	// Protected is a path that belongs to acphost itself.
	Protected
	// Changed is a path or content that has changed since the decision on the call.
	Changed
	// NoSpace is a full disk or quota.
	NoSpace
	// Failed is any other error: input and output errors.
	Failed
)

// Error is the type of every error that this package returns, except a context's own.
//
// Agents search errors for words to decide that a file may be created. So only the text of a Missing error states that
// a file does not exist, in exactly one wording, and no other text contains any of the usual wordings.
type Error struct {
	Kind Kind
	text string
	err  error
}

func (e *Error) Error() string { return e.text }

// Unwrap returns the system's error, if there is one.
func (e *Error) Unwrap() error { return e.err }

func fail(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, text: fmt.Sprintf(format, args...)}
}

func errContentTooLarge(size, limit int64, path string) *Error {
	return fail(TooLarge, "the content has %d bytes, more than the %d that are written at once: %s", size, limit, path)
}

// Errors about a path.
var (
	errMissing       = pathError(Missing, "Resource not found: %s")
	errEscapes       = pathError(Escapes, "Path escapes workspace: %s")
	errRelative      = pathError(Invalid, "the path is relative, an absolute path is needed: %s")
	errNameTooLong   = pathError(Invalid, "a name in the path is too long for the file system: %s")
	errDirectory     = pathError(Invalid, "is a directory, not a file: %s")
	errTrailingSlash = pathError(Invalid, "the path ends like a directory's, a file's is needed: %s")
	errNotText       = pathError(NotText, "not a text file (not UTF-8, or it holds a NUL byte): %s")
	errOldNotText    = pathError(NotText, "the file is not replaced, since it does not hold UTF-8 text without NUL bytes and would lose its encoding: convert it to UTF-8 or remove it first: %s")
	errNewNotText    = pathError(NotText, "the content holds a NUL byte, so that the file could not be read again as text: %s")
	errGit           = pathError(Protected, "the path is git's own, and git runs programs that are named there: use git's commands, or ask the user: %s")
	errProtected     = pathError(Protected, "the path belongs to acphost itself, which no agent may touch: %s")
	errSwapped       = pathError(Changed, "the path changed while it was being opened, try again: %s")
	errStale         = pathError(Changed, "the file changed since it was read, read it again before writing: %s")
	errStaleGone     = pathError(Changed, "the file was removed since it was read, read it again before writing: %s")
)

func pathError(kind Kind, format string) func(path string) *Error {
	return func(path string) *Error { return fail(kind, format, path) }
}

func errPartialWrite(path string, cause error) *Error {
	e := errSystem("write", path, cause)
	e.text += " (the file was being written in place, and its old content could not be put back)"
	return e
}

// errSystem converts a system error. It does not return Missing for a file that does not exist (see errAt): here such a
// file has been removed during the call.
func errSystem(verb, path string, err error) *Error {
	kind := Failed
	switch {
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM), errors.Is(err, unix.EROFS):
		kind = Denied
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EDQUOT):
		kind = NoSpace
	case errors.Is(err, unix.ENAMETOOLONG):
		e := errNameTooLong(path)
		e.err = err
		return e
	case errors.Is(err, unix.EFBIG):
		kind = TooLarge
	}
	return &Error{Kind: kind, text: fmt.Sprintf("cannot %s %s: %s", verb, path, systemText(err)), err: err}
}

// errAt is errSystem for a step in which a file that does not exist is simply missing.
func errAt(verb, path string, err error) *Error {
	if errors.Is(err, unix.ENOENT) {
		e := errMissing(path)
		e.err = err
		return e
	}
	return errSystem(verb, path, err)
}

func systemText(err error) string {
	if errors.Is(err, unix.ENOENT) {
		return "it was removed meanwhile"
	}
	return err.Error()
}
