//go:build !linux

package proc

// TakeName does nothing here: only Linux needs it.
func TakeName() {}
