//go:build !linux

package proc

// SetName does nothing here: only Linux needs it.
func SetName() {}
