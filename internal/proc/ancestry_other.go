//go:build !linux

package proc

import "fmt"

// Ancestry needs /proc: here it returns ErrUnsupported.
func Ancestry(pid int, _ func(pid int) (enough bool, err error)) error {
	return fmt.Errorf("ancestors of process %d: %w", pid, ErrUnsupported)
}

// Ancestors needs /proc: here it returns ErrUnsupported.
func Ancestors(pid int, _ func(Process) (enough bool, err error)) error { return Ancestry(pid, nil) }

// CommandLine needs /proc: here it returns ErrUnsupported.
func CommandLine(pid int) ([]string, error) {
	return nil, fmt.Errorf("command line of process %d: %w", pid, ErrUnsupported)
}

// Executable needs /proc: here it returns ErrUnsupported.
func Executable(pid int) (string, error) {
	return "", fmt.Errorf("program of process %d: %w", pid, ErrUnsupported)
}

// StartedWith needs /proc: here it returns ErrUnsupported.
func StartedWith(pid int, _ ...string) (bool, error) {
	return false, fmt.Errorf("environment of process %d: %w", pid, ErrUnsupported)
}
