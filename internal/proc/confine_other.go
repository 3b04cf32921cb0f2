//go:build !linux

package proc

import "fmt"

// Confine needs Linux: here it calls start without restrictions.
func Confine(_ Confinement, start func(Restrictions) error) error {
	return start(Restrictions{Notes: []string{"processes are not confined: " + ConfineSupported().Error()}})
}

// ConfineSupported returns why Confine applies no restrictions here.
func ConfineSupported() error { return fmt.Errorf("landlock: %w: linux only", ErrUnsupported) }

// TraceConfineSupported returns the same error.
func TraceConfineSupported() error { return ConfineSupported() }

// FilterSupported returns why there is no seccomp filter here.
func FilterSupported() error { return fmt.Errorf("seccomp: %w: linux only", ErrUnsupported) }

// Filters needs Linux: here it returns ErrUnsupported.
func Filters(pid int) (int, error) {
	return 0, fmt.Errorf("seccomp filters of process %d: %w", pid, ErrUnsupported)
}
