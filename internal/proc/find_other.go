//go:build !linux

package proc

import "fmt"

// Descendants needs /proc: here it returns ErrUnsupported.
func Descendants(pid int) ([]int, error) {
	return nil, fmt.Errorf("descendants of process %d: %w", pid, ErrUnsupported)
}

// InSession needs /proc: here it returns ErrUnsupported.
func InSession(session int) ([]int, error) {
	return nil, fmt.Errorf("list session %d: %w", session, ErrUnsupported)
}

// WithEnviron needs /proc: here it returns ErrUnsupported.
func WithEnviron(string) ([]int, error) {
	return nil, fmt.Errorf("find processes by environment: %w", ErrUnsupported)
}

// ReapAdopted needs subreapers: here it returns ErrUnsupported.
func ReapAdopted(func(pid int) bool) (int, error) {
	return 0, fmt.Errorf("reap adopted processes: %w", ErrUnsupported)
}

// Orphans needs subreapers: here it returns ErrUnsupported.
func Orphans() ([]int, error) {
	return nil, fmt.Errorf("look for orphans: %w", ErrUnsupported)
}
