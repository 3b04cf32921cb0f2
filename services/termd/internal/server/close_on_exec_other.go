//go:build !linux

package server

// setCloseOnExec does nothing here: every file is opened with close-on-exec.
func setCloseOnExec() {}
