// Package regular reads regular files of bounded length, whatever stands in the place of one: it neither waits for the other
// end of a named pipe nor reads what never ends.
//
// It must not know what the files hold, or who may read and write them.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns the content of a regular file of at most so many bytes. The error wraps fs.ErrNotExist if it is missing.
func Read(name string, most int) ([]byte, error) {
	return ReadIf(name, most, func(fs.FileInfo) error { return nil })
}

// ReadIf is Read for a file that accept has no error for.
func ReadIf(name string, most int, accept func(fs.FileInfo) error) ([]byte, error) {
	// Without O_NONBLOCK, opening a named pipe would wait for its writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is not a regular file", name)
	}
	if err := accept(info); err != nil {
		return nil, err
	}
	return ReadAll(f, name, most)
}

// ReadAll returns all that comes from r, at most so many bytes. An error calls it name.
func ReadAll(r io.Reader, name string, most int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(most)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > most {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, most)
	}
	return data, nil
}
