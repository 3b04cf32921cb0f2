//go:build !linux

package proc

import "fmt"

// Confine needs Landlock: here it returns ErrUnsupported and does not call start.
func Confine(func() error) error { return ConfineSupported() }

// ConfineSupported says why Confine cannot work here.
func ConfineSupported() error { return fmt.Errorf("landlock: %w: linux only", ErrUnsupported) }
