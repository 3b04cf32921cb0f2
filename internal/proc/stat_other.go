//go:build !linux

package proc

import "fmt"

// ProcSupported returns why /proc cannot be used here.
func ProcSupported() error { return fmt.Errorf("/proc: %w: linux only", ErrUnsupported) }
