package files

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Kind says what went wrong, so that a server can map an error without reading its text.
type Kind int

// The kinds of Error.
const (
	// Invalid is a request that can never succeed as it stands: a relative path, a folder to be read as a file.
	Invalid Kind = iota + 1
	// Escapes is a path that leads out of the roots.
	Escapes
	// Missing is a file that is not there.
	Missing
	// TooLarge is content over the configured ceiling.
	TooLarge
	// NotText is content that is not UTF-8, or holds a NUL.
	NotText
	// Denied is what the system's permissions, or a read-only root, forbid.
	Denied
	// Protected is a path that belongs to acphost itself.
	Protected
	// Changed is a path, or a content, that is not what it was when the call was decided.
	Changed
	// NoSpace is a full disk or quota.
	NoSpace
	// Failed is everything else: input and output errors.
	Failed
)

// Error is every error that this package returns, except a context's own.
//
// Agents look for words in errors to tell that a file may be created. So only the text of a Missing error says that
// something is not there, in exactly one wording, and no other text holds any of the usual wordings of it.
type Error struct {
	Kind Kind
	text string
	err  error
}

func (e *Error) Error() string { return e.text }

// Unwrap gives the system's error, if there is one.
func (e *Error) Unwrap() error { return e.err }

func fail(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, text: fmt.Sprintf(format, args...)}
}

func errMissing(path string) *Error {
	return fail(Missing, "Resource not found: %s", path)
}

func errEscapes(path string) *Error {
	return fail(Escapes, "Path escapes workspace: %s", path)
}

func errEmptyPath() *Error {
	return fail(Invalid, "the path is empty: an absolute path is needed")
}

func errRelative(path string) *Error {
	return fail(Invalid, "the path is relative, an absolute path is needed: %s", path)
}

func errNULInPath() *Error {
	return fail(Invalid, "the path holds a NUL byte")
}

func errPathTooLong(size int) *Error {
	return fail(Invalid, "the path is %d bytes long, %d are allowed", size, maxPath)
}

func errNameTooLong(path string) *Error {
	return fail(Invalid, "a name in the path is too long for the file system: %s", path)
}

func errUnprintable(path string) *Error {
	return fail(Invalid, "the path leads to a name that is not UTF-8: %s", path)
}

func errNoRoots() *Error {
	return fail(Invalid, "the call names no roots")
}

func errRelativeRoot(path string) *Error {
	return fail(Invalid, "a root is relative, an absolute path is needed: %q", path)
}

func errLoop(path string) *Error {
	return fail(Invalid, "too many symbolic links: %s", path)
}

func errBelowFile(path, file string) *Error {
	return fail(Invalid, "%s is not a directory, so nothing can be below it: %s", file, path)
}

func errNotDirectory(path string) *Error {
	return fail(Invalid, "not a directory: %s", path)
}

func errDirectory(path string) *Error {
	return fail(Invalid, "is a directory, not a file: %s", path)
}

func errTrailingSlash(path string) *Error {
	return fail(Invalid, "the path ends like a directory's, a file's is needed: %s", path)
}

func errSpecial(path string, m meta) *Error {
	return fail(Invalid, "is %s, not a regular file: %s", m.describe(), path)
}

func errNotText(path string) *Error {
	return fail(NotText, "not a text file (not UTF-8, or it holds a NUL byte): %s", path)
}

func errFileTooLarge(path string, size, limit int64) *Error {
	return fail(TooLarge, "the file has %d bytes, more than the %d that are read at once: read it in parts, with line "+
		"(the first line, from 1) and limit (how many lines): %s", size, limit, path)
}

func errStreamTooLarge(path string, limit int64) *Error {
	return fail(TooLarge, "the file has more than the %d bytes that are read at once: read it in parts, with line "+
		"(the first line, from 1) and limit (how many lines): %s", limit, path)
}

func errLinesTooLarge(path string, size, limit int64) *Error {
	return fail(TooLarge, "the lines asked for, of a file of %d bytes, have more than the %d bytes that are read at "+
		"once: ask for fewer, with line (the first line, from 1) and limit (how many lines): %s", size, limit, path)
}

func errContentTooLarge(path string, size, limit int64) *Error {
	return fail(TooLarge, "the content has %d bytes, more than the %d that are written at once: %s", size, limit, path)
}

func errMaxContent(size int64) *Error {
	return fail(Invalid, "a content of at most %d bytes was asked for, %d to %d can be set",
		size, int64(MinMaxContent), int64(MaxMaxContent))
}

func errListLimit(limit uint32) *Error {
	return fail(Invalid, "%d entries were asked for, 1 to %d can be", limit, MaxListLimit)
}

func errReadOnlyRoot(path, root string) *Error {
	return fail(Denied, "the root %s is read-only: %s", root, path)
}

func errProtected(path string) *Error {
	return fail(Protected, "the path belongs to acphost itself, which no agent may touch: %s", path)
}

func errLedElsewhere(path, decided, now string) *Error {
	return fail(Changed, "the path led to %s when the call was allowed and leads to %s now, try again: %s",
		decided, now, path)
}

func errSwapped(path string) *Error {
	return fail(Changed, "the path changed while it was being opened, try again: %s", path)
}

func errStale(path string) *Error {
	return fail(Changed, "the file changed since it was read, read it again before writing: %s", path)
}

func errStaleGone(path string) *Error {
	return fail(Changed, "the file was removed since it was read, read it again before writing: %s", path)
}

func errTorn(path string, cause error) *Error {
	e := errSystem("write", path, cause)
	e.text += " (the file was being written in place, and its old content could not be put back)"
	return e
}

// errSystem words an error of the system's. A file that is not there becomes Missing only in errAt: here it can only be
// something that vanished half way.
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

// errAt is errSystem for a step where what is not there is simply a missing file.
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
