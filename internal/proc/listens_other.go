//go:build !linux

package proc

import "fmt"

// ListensAlone needs /proc: here it returns ErrUnsupported.
func ListensAlone(port uint16, _ ...int) (bool, error) {
	return false, fmt.Errorf("find the processes that listen on port %d: %w", port, ErrUnsupported)
}
