//go:build !linux

package proc

// TakeName is for Linux: elsewhere a process has its name already.
func TakeName() {}
