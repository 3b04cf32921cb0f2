//go:build !linux

package proc

import "fmt"

// ProcSupported says why /proc cannot tell of processes here.
func ProcSupported() error { return fmt.Errorf("/proc: %w: linux only", ErrUnsupported) }
