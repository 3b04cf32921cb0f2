// Package ownfile opens the files that several supervisors append to at the same time. Such a file is private to the
// user and locked while it is written. It may be rotated or replaced while other processes have it open; Current tells
// them.
//
// The package knows one thing about the contents: they are lines, and a last line without an end was not written
// completely.
package ownfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// LockTimeout is how long a lock is waited for. A lock is held for the time of one write, so whoever holds one longer
// is stopped, or means harm: any process that may read a file can lock it, an agent too.
const LockTimeout = 2 * time.Second

// ErrLocked says that somebody else held the lock for LockTimeout.
var ErrLocked = errors.New("another process has it locked")

// Append opens a file for appending and for reading, and makes it (0600) and its folder (0700) if they are missing. It
// is an error if the file is not a regular one, is a symbolic link, belongs to another user or can be written by one,
// or if its folder can.
func Append(path string) (*os.File, error) {
	return open(path, os.O_RDWR|os.O_APPEND|os.O_CREATE)
}

// Read opens a file for reading. What it refuses is what Append refuses; a file that is missing is fs.ErrNotExist.
func Read(path string) (*os.File, error) { return open(path, os.O_RDONLY) }

func open(path string, flags int) (*os.File, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s is not an absolute path", path)
	}
	dir := filepath.Dir(path)
	if flags&os.O_CREATE != 0 {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
	}
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	// Neither does it follow a link, nor wait for the other end of a pipe that stands in the file's place.
	f, err := os.OpenFile(path, flags|openFlags, 0o600)
	if err != nil {
		return nil, err
	}
	if err := check(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	owner, _, known := Owner(info)
	switch {
	case known && owner != os.Geteuid() && owner != 0:
		return fmt.Errorf("%s belongs to user %d; the folder must be one of your own", dir, owner)
	case info.Mode().Perm()&0o022 != 0 && info.Mode()&fs.ModeSticky == 0:
		return fmt.Errorf("others can write to the folder %s (mode %v); run \"chmod go-w\" on it", dir, info.Mode().Perm())
	}
	return nil
}

func check(f *os.File) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	owner, _, known := Owner(info)
	switch {
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file (%v)", f.Name(), info.Mode().Type())
	case known && owner != os.Geteuid():
		return fmt.Errorf("%s belongs to user %d; it must be a file of your own", f.Name(), owner)
	case info.Mode().Perm()&0o022 != 0:
		return fmt.Errorf("others can write to %s (mode %v); look at what is in it, then run \"chmod 600\" on it", f.Name(), info.Mode().Perm())
	}
	return nil
}

// Lock waits for f's lock until the deadline; then the error is ErrLocked. The lock is freed by Unlock, or when f is
// closed, or by the system when the process ends.
func Lock(f *os.File, deadline time.Time) error {
	// Short waits throughout: whoever asks seldom loses to those who take the lock again and again.
	for wait := 20 * time.Microsecond; ; wait = min(2*wait, time.Millisecond) {
		held, err := tryLock(f)
		if err != nil {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if held {
			return nil
		}
		// The system's own waiting has no deadline, and a process of the agent's could hold the lock for ever.
		if !time.Now().Add(wait).Before(deadline) {
			return fmt.Errorf("lock %s: %w; \"fuser -v %s\" names it: end it", f.Name(), ErrLocked, f.Name())
		}
		time.Sleep(wait)
	}
}

// Unlock frees the lock.
func Unlock(f *os.File) { unlock(f) }

// Current reports whether f is still the file that its name stands for: it was neither replaced nor put aside.
func Current(f *os.File) bool {
	at, err := os.Lstat(f.Name())
	if err != nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && os.SameFile(at, info)
}

// LastEnd returns where the last whole line of a file ends, and the file's size. A line may be very long, so that it is
// not read at once.
func LastEnd(f *os.File) (end, size int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	size = info.Size()
	buf := make([]byte, min(64<<10, size))
	for end = size; end > 0; {
		n := min(int64(len(buf)), end)
		if end == size { // almost always the last byte is all there is to see
			n = 1
		}
		if _, err := f.ReadAt(buf[:n], end-n); err != nil {
			return 0, 0, fmt.Errorf("read the end of %s: %w", f.Name(), err)
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return end - n + int64(i) + 1, size, nil
		}
		end -= n
	}
	return 0, size, nil
}

// TornTail returns what stands behind the last line of a file: nothing, if all of its lines have an end. at is where it
// begins, and where a line that is whole would. Call it with the lock held: a line that is being written is torn too.
func TornTail(f *os.File) (tail []byte, at int64, err error) {
	at, size, err := LastEnd(f)
	if err != nil {
		return nil, 0, err
	}
	if size-at > maxTail {
		return nil, at, fmt.Errorf("the last %d bytes of %s are no lines; move the file away", size-at, f.Name())
	}
	tail = make([]byte, size-at)
	if _, err := f.ReadAt(tail, at); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, fmt.Errorf("read the end of %s: %w", f.Name(), err)
	}
	return tail, at, nil
}

// maxTail is more than anyone here writes as one line.
const maxTail = 16 << 20

// AppendAll writes all of data at the end of f, or nothing: what a full disk took of it is taken back. Call it with the
// lock held.
func AppendAll(f *os.File, data []byte) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if n, err := f.Write(data); err != nil {
		if n > 0 {
			if back := f.Truncate(info.Size()); back != nil {
				err = errors.Join(err, fmt.Errorf("and take back the %d bytes that were written: %w", n, back))
			}
		}
		return err
	}
	return nil
}

// Write makes a private file (0600) of what write writes, whole or not at all, and the content durable. A file that is there
// is replaced only if replace is set; else the error wraps fs.ErrExist.
func Write(name string, replace bool, write func(io.Writer) error) error {
	temp, err := os.CreateTemp(filepath.Dir(name), ".acphost-*")
	if err != nil {
		return err
	}
	defer os.Remove(temp.Name())
	if err := errors.Join(write(temp), temp.Sync(), temp.Close()); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if replace {
		return os.Rename(temp.Name(), name)
	}
	// A link, unlike a rename, does not replace what somebody made meanwhile.
	err = os.Link(temp.Name(), name)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already: %w", name, fs.ErrExist)
	}
	return err
}

// SyncDir makes the names in a folder durable.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// StateDir returns the folder for the user's state: acphost under $XDG_STATE_HOME, else under ~/.local/state. Empty:
// the environment names neither it nor a home directory.
func StateDir(env func(string) string) string {
	return BaseDir(env, "XDG_STATE_HOME", filepath.Join(".local", "state"), "acphost")
}

// BaseDir returns a folder below the one that a variable of the XDG base directory specification names, else below one
// of the home directory. Empty: the environment names neither. The specification has relative paths ignored.
func BaseDir(env func(string) string, variable, inHome string, below ...string) string {
	base := env(variable)
	if home := env("HOME"); !filepath.IsAbs(base) && filepath.IsAbs(home) {
		base = filepath.Join(home, inHome)
	}
	if !filepath.IsAbs(base) {
		return ""
	}
	return filepath.Join(append([]string{base}, below...)...)
}
