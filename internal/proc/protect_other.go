//go:build !linux

package proc

import "fmt"

// Undumpable needs Linux: here it returns ErrUnsupported.
func Undumpable() error { return fmt.Errorf("make the process undumpable: %w", ErrUnsupported) }

// Subreaper needs Linux: here it returns ErrUnsupported.
func Subreaper() error { return fmt.Errorf("become a subreaper: %w", ErrUnsupported) }
