// Package regular reads regular files of bounded length. It does not block on a named pipe, and does not read endless
// devices.
//
// It must not know the content of the files, or who may read and write them.
package regular

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
)

// Read returns the content of a regular file of at most maxBytes bytes. The error wraps fs.ErrNotExist if it is
// missing.
func Read(name string, maxBytes int) ([]byte, error) {
	return ReadIf(name, maxBytes, func(fs.FileInfo) error { return nil })
}

// ReadIf is Read for a file that accept returns no error for.
func ReadIf(name string, maxBytes int, accept func(fs.FileInfo) error) (data []byte, err error) {
	err = open(name, func(f *os.File, info fs.FileInfo) error {
		if err := accept(info); err != nil {
			return err
		}
		data, err = ReadAll(f, name, maxBytes)
		return err
	})
	return data, err
}

// ReadPrefix returns the first maxBytes bytes of a regular file, or its whole content (complete).
func ReadPrefix(name string, maxBytes int) (data []byte, complete bool, err error) {
	err = open(name, func(f *os.File, _ fs.FileInfo) error {
		data, err = io.ReadAll(io.LimitReader(f, int64(maxBytes)+1))
		return err
	})
	if err != nil {
		return nil, false, fmt.Errorf("read %s: %w", name, err)
	}
	return data[:min(len(data), maxBytes)], len(data) <= maxBytes, nil
}

// open calls read with a regular file.
func open(name string, read func(f *os.File, info fs.FileInfo) error) error {
	// Without O_NONBLOCK, opening a named pipe would wait for a writer.
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is not a regular file", name)
	}
	return read(f, info)
}

// ReadAll returns the content of r, at most maxBytes bytes. Errors contain name.
func ReadAll(r io.Reader, name string, maxBytes int) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, int64(maxBytes)+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	if len(data) > maxBytes {
		return nil, fmt.Errorf("%s is longer than %d bytes", name, maxBytes)
	}
	return data, nil
}
