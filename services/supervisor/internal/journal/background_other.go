//go:build !linux

package journal

// background does nothing here: priorities belong to processes, not to threads.
func background() {}
